//! The ready-made forms.
