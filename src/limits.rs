//! Every limit of the server, with its reason.
