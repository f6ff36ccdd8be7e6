//! One file a page: what it asks, what it makes of the replies, what it shows.
