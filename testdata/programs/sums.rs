// The first of sums.c in Rust.
//
//	rustc -O -o rust-sums sums.rs
//	./rust-sums 1000

#[inline(never)]
fn triangle(n: u64) -> u64 {
    (0..n).sum()
}

fn main() {
    let n = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("{}", triangle(n));
}
