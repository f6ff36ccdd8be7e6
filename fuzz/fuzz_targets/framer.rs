#![no_main]

#[path = "../check_framer.rs"]
mod check_framer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check_framer::check(data));
