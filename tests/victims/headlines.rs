// SPDX-License-Identifier: MIT
// A use after free in a function that is inlined into main, as -O makes it.
struct Buf { at: *mut u64 }
impl Buf {
    #[inline(always)]
    fn free_now(&self) { unsafe { drop(Box::from_raw(self.at)) } }
    #[inline(always)]
    fn read(&self) -> u64 { unsafe { self.at.read_volatile() } }
}
fn main() {
    let mut all = 0;
    for n in 0..5u64 {
        let b = Buf { at: Box::into_raw(Box::new(n)) };
        b.free_now();
        all += b.read();
    }
    println!("{}", all > 0);
}
