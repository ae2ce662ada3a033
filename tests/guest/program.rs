// SPDX-License-Identifier: MIT
// program.rs - a program in Rust that behaves as guest.h says: threads with alternate stacks, panics, strings.
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

#[no_mangle]
pub static COUNTER: AtomicI64 = AtomicI64::new(0);

#[no_mangle]
#[inline(never)]
pub extern "C" fn step(x: i64) -> i64 {
    COUNTER.store(x, Ordering::Relaxed);
    x + 1
}

fn get(file: &File, offset: u64) -> u32 {
    let mut b = [0u8; 4];
    file.read_exact_at(&mut b, offset).unwrap();
    u32::from_le_bytes(b)
}

fn put(file: &File, offset: u64, value: u32) {
    file.write_all_at(&value.to_le_bytes(), offset).unwrap();
}

fn must(file: &File, what: bool, text: &str) {
    if !what {
        file.write_all_at(format!("{}\0", text).as_bytes(), 24).unwrap();
        println!("{}", text);
        std::process::exit(1);
    }
}

fn work() -> usize {
    let mut bytes = 0;
    for i in 0..300usize {
        let text: String = (0..i % 50).map(|k| (b'a' + (k % 26) as u8) as char).collect();
        bytes += text.len() + text.find("zz").unwrap_or(0);
        if step(i as i64) != i as i64 + 1 {
            return 0;
        }
    }
    bytes
}

fn main() {
    let path = std::env::args().nth(2).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    panic::set_hook(Box::new(|_| {}));
    put(&file, 12, std::process::id());
    loop {
        let threads: Vec<_> = (0..3).map(|_| thread::spawn(work)).collect();
        for t in threads {
            must(&file, t.join().unwrap() == 7350, "a thread has another result");
        }
        must(&file, panic::catch_unwind(|| panic!("deep")).is_err(), "a panic was not caught");
        put(&file, 16, get(&file, 16) + 1);
        thread::sleep(std::time::Duration::from_millis(3));
        if get(&file, 0) != 0 {
            break;
        }
    }
    println!("ok");
}
