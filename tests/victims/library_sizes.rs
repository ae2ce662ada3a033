// SPDX-License-Identifier: MIT
// library_sizes.rs - strings of Rust, of which eight calls have 0 to 7 bytes.
#[inline(never)]
#[no_mangle]
pub fn sized(s: &str, t: &String, n: u64) {
    std::hint::black_box((s, t, n));
}

fn main() {
    let text = String::from("abcdefgh");
    for i in 0..8usize {
        sized(&text[..i], &text[..i].to_string(), i as u64);
    }
}
