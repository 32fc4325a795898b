//! The examples are beside this directory; there is nothing here.
