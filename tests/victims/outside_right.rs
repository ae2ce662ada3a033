// SPDX-License-Identifier: MIT
// outside_right.rs SECONDS - locks, a channel and an atomic variable: see test_race_outside_languages.sh.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

static COUNT: AtomicU64 = AtomicU64::new(0);

fn main() {
    let seconds = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let sum = Arc::new(Mutex::new(0u64));
    let table = Arc::new(RwLock::new(vec![0u64; 64]));
    let (to, from) = mpsc::channel::<Vec<u64>>();
    let threads: Vec<_> = (0..2)
        .map(|k| {
            let (sum, table, to) = (sum.clone(), table.clone(), to.clone());
            thread::spawn(move || {
                let mut seen = 0u64;
                while Instant::now() < end {
                    for i in 0..50usize {
                        *sum.lock().unwrap() += 1;
                        if k == 1 {
                            table.write().unwrap()[i] += 1
                        } else {
                            seen += table.read().unwrap()[i]
                        }
                        COUNT.fetch_add(1, Ordering::Relaxed);
                    }
                    to.send(vec![seen; 8]).unwrap();
                }
            })
        })
        .collect();
    drop(to);
    let all = from.iter().fold(0u64, |a, v| a.wrapping_add(v[0]));
    for t in threads {
        t.join().unwrap();
    }
    println!("{} {} {}", sum.lock().unwrap(), COUNT.load(Ordering::Relaxed), all);
}
