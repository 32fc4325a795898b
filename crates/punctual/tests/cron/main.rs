//! Cron from outside: the table of days on which others disagree, the language, and every zone of the database
//! against a search that walks through time minute by minute.

mod brute;
mod extremes;
mod language;
mod naive;
mod random;
mod support;
mod table;
mod zones;
