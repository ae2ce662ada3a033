// SPDX-License-Identifier: MIT
// outside_racy.rs SECONDS - two races: see test_race_outside_languages.sh.
use std::thread;
use std::time::{Duration, Instant};

static mut SHARED: u64 = 0;

struct Node {
    a: u64,
}

#[inline(never)]
fn bump() {
    unsafe { SHARED += 1 }
}

#[inline(never)]
fn set(n: *mut Node, v: u64) {
    unsafe { (*n).a = v }
}

#[inline(never)]
fn get(n: *mut Node) -> u64 {
    unsafe { (*n).a }
}

fn work(n: u64) -> u64 {
    (0..n).fold(0, |x: u64, i| x.wrapping_mul(31) ^ unsafe { std::ptr::read_volatile(&i) })
}

fn main() {
    let seconds = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let node = Box::into_raw(Box::new(Node { a: 0 })) as usize;
    let threads: Vec<_> = (0..2)
        .map(|k| {
            thread::spawn(move || {
                let mut sum = 0u64;
                while Instant::now() < end {
                    for i in 0..200 {
                        bump();
                        if k == 1 {
                            set(node as *mut Node, i)
                        } else {
                            sum = sum.wrapping_add(get(node as *mut Node))
                        }
                        sum ^= work(60);
                    }
                }
                sum
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap();
    }
    unsafe { println!("{}", *std::ptr::addr_of!(SHARED)) }
}
