// SPDX-License-Identifier: MIT

//! language_rust.rs prints each call that test_language.sh looks at, as the ground truth.

use std::time::Duration;

#[derive(Clone, Copy)]
pub enum Kind {
    Empty,
    Small(u32),
    Pair { x: i64, y: i64 },
}

pub struct Account {
    cents: i64,
}

pub struct Pos {
    x: i32,
    y: i32,
}

impl Account {
    #[inline(never)]
    pub fn pay(&mut self, cents: i64) -> Result<i64, String> {
        self.cents = 1000 - cents;
        if cents % 3 == 0 {
            return Err(format!("refused {}", cents));
        }
        Ok(self.cents)
    }
}

#[inline(never)]
pub fn plain(n: i32, b: bool, o: Option<u32>) -> i32 {
    let add = o.unwrap_or(1) as i32;
    if b { n + add } else { n - add }
}

#[inline(never)]
pub fn text(s: &str, v: &[i32]) -> usize {
    s.len() + v.iter().map(|x| *x as usize).sum::<usize>()
}

#[inline(never)]
pub fn kind(n: u32) -> Kind {
    match n % 3 {
        0 => Kind::Empty,
        1 => Kind::Small(n),
        _ => Kind::Pair { x: n as i64, y: 5 },
    }
}

#[inline(never)]
pub fn member(p: Pos, d: i32) -> Pos {
    Pos { x: p.y + d, y: p.x }
}

#[inline(never)]
pub fn number(f: f64, n: i32) -> f64 {
    f * n as f64
}

/// Whether the caller gives an address for the result depends on the release of rustc.
#[inline(never)]
pub fn three(n: i32) -> [i32; 3] {
    let numbers = [n, n + 1, n + 2];
    unsafe { std::ptr::read_volatile(&numbers) }
}

fn show(o: Option<u32>) -> String {
    match o {
        None => "None".to_string(),
        Some(n) => format!("Some({})", n),
    }
}

fn line(round: i32, account: &mut Account) {
    let (n, b) = (300 + round % 5, round % 2 == 0);
    let o = if round % 3 == 0 { None } else { Some(round as u32) };
    println!("plain {} {} {} {}", n, b, show(o), plain(n, b, o));
    let (s, v) = (&"round"[..1 + round as usize % 5], &[round, 20, 30][..round as usize % 4]);
    println!("text \"{}\" {:?} {}", s, v, text(s, v));
    let k = match kind(round as u32) {
        Kind::Empty => "Empty".to_string(),
        Kind::Small(n) => format!("Small({})", n),
        Kind::Pair { x, y } => format!("Pair{{.x {}, .y {}}}", x, y),
    };
    println!("kind {} {}", round, k);
    let p = member(Pos { x: round, y: 5 }, n);
    println!("member {{.x {}, .y 5}} {} {{.x {}, .y {}}}", round, n, p.x, p.y);
    println!("number {}", number(1.5, n));
    println!("three {}", three(n)[0]);
    let paid = match account.pay(round as i64) {
        Ok(n) => format!("Ok({})", n),
        Err(e) => format!("Err(\"{}\")", e),
    };
    println!("pay {} {}\npaid {}", round, paid, paid);
}

fn main() {
    let mut account = Account { cents: 0 };
    for round in 0.. {
        line(round % 60, &mut account);
        std::thread::sleep(Duration::from_millis(2));
    }
}
