// SPDX-License-Identifier: MIT

// spelled.rs writes a variable in functions that are inlined into main, for test_spelled.sh.
use std::io::Write;
use std::ptr::addr_of_mut;

static mut TOTAL: u64 = 0;

struct Sum {
    by: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&self) -> u64 {
        unsafe {
            let at = addr_of_mut!(TOTAL);
            at.write_volatile(at.read_volatile() + self.by);
            at.read_volatile()
        }
    }
}

fn main() {
    for n in 0u64.. {
        let sum = Sum { by: n % 3 };
        println!("{}", sum.add());
        std::io::stdout().flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
