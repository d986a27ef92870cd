//! Inputs made by seed: the same bytes on every host and in every run.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use weir_policy::random::Random;

const SEED: u64 = 1978;

/// Makes the input that `recipe` ("KIND COUNT") asks for.
pub fn make(recipe: &str, path: &Path) -> Result<(), String> {
    let (kind, count) = recipe.split_once(' ').ok_or_else(|| format!("'{recipe}' has no count"))?;
    let count: u64 = count.trim().parse().map_err(|_| format!("'{count}' is not a number"))?;
    let mut random = Random::new(SEED);
    let written = match kind {
        "tree" => tree(path, count, &mut random),
        _ => {
            let writer = match kind {
                "log" => log,
                "access" => access,
                "orders" => orders,
                "events" => events,
                "prose" => prose,
                "reference" => reference,
                "reads" => reads,
                "variants" => variants,
                "binary" => binary,
                _ => return Err(format!("no generator makes '{kind}'")),
            };
            File::create(path).and_then(|file| {
                let mut file = BufWriter::with_capacity(1 << 20, file);
                writer(&mut file, count, &mut random)?;
                file.flush()
            })
        }
    };
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

type Out<'a> = &'a mut dyn Write;

fn pick<'a>(random: &mut Random, among: &[&'a str]) -> &'a str {
    among[random.below(among.len() as u64) as usize]
}

fn clock(n: u64) -> (u64, u64, u64) {
    (n / 36_000 % 24, n / 600 % 60, n / 10 % 60)
}

/// Lines of a service's log.
fn log(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    for n in 0..lines {
        let (h, m, s) = clock(n);
        let (host, item, bytes) = (random.below(100), random.below(100_000), random.below(99_999));
        writeln!(out, "2026-11-21 {h:02}:{m:02}:{s:02} host{host} GET /item/{item} 200 {bytes}")?;
    }
    Ok(())
}

/// A web server's access log in the combined format.
fn access(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    const AGENTS: [&str; 4] = [
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        "curl/7.88.1",
        "Googlebot/2.1 (+http://www.google.com/bot.html)",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)",
    ];
    for n in 0..lines {
        let (h, m, s) = clock(n);
        let (a, b) = (random.below(250), random.below(250));
        let status = pick(random, &["200", "200", "200", "200", "304", "404", "500", "503"]);
        let (page, bytes) = (random.below(3000), random.below(60_000));
        let agent = pick(random, &AGENTS);
        writeln!(
            out,
            "10.7.{a}.{b} - - [21/Nov/2026:{h:02}:{m:02}:{s:02} +0000] \"GET /page/{page}.html \
             HTTP/1.1\" {status} {bytes} \"-\" \"{agent}\""
        )?;
    }
    Ok(())
}

/// A table of orders with a header.
fn orders(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    writeln!(out, "id,customer,country,price,quantity,note")?;
    for n in 0..lines {
        let country = pick(random, &["DE", "FR", "GB", "NL", "PL", "SE", "US", "AT"]);
        let (customer, price) = (random.below(20_000), random.below(100_000));
        let (quantity, note) = (1 + random.below(9), random.below(1 << 32));
        let (whole, cents) = (price / 100, price % 100);
        writeln!(out, "{n},customer {customer},{country},{whole}.{cents:02},{quantity},n{note:x}")?;
    }
    Ok(())
}

/// Events, one JSON object a line.
fn events(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    for n in 0..lines {
        let status = pick(random, &["200", "200", "200", "301", "404", "500", "502"]);
        let (a, b) = (random.below(250), random.below(250));
        let (took, user) = (random.below(4000), random.below(5000));
        let path = pick(random, &["/api/v1/items", "/api/v1/users", "/login", "/static/app.js"]);
        writeln!(
            out,
            "{{\"time\":{n},\"status\":{status},\"ip\":\"10.8.{a}.{b}\",\"took_ms\":{took},\
             \"user\":{{\"id\":{user},\"name\":\"user {user}\"}},\"path\":\"{path}\",\
             \"tags\":[\"a\",\"b{}\"]}}",
            n % 7
        )?;
    }
    Ok(())
}

/// Lines of invented words, the first ones far more frequent than the last.
fn prose(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    const SYLLABLES: [&str; 16] = [
        "ka", "lo", "mi", "ren", "ta", "su", "vor", "ne", "pi", "dan", "gu", "sha", "el", "o",
        "ris", "ba",
    ];
    let mut words = Vec::new();
    for _ in 0..5000 {
        let count = 1 + random.below(4);
        words.push((0..count).map(|_| pick(random, &SYLLABLES)).collect::<String>());
    }
    for _ in 0..lines {
        for place in 0..10 {
            // The product of two numbers is small more often than large.
            let at = random.below(5000) * random.below(5000) / 5000;
            let word = &words[at as usize];
            let blank = if place == 0 { "" } else { " " };
            if random.below(12) == 0 {
                let (first, rest) = word.split_at(1);
                write!(out, "{blank}{}{rest}", first.to_uppercase())?;
            } else {
                write!(out, "{blank}{word}")?;
            }
        }
        writeln!(out, "{}", pick(random, &[".", ".", "!", "?", ","]))?;
    }
    Ok(())
}

fn bases(count: u64, random: &mut Random) -> Vec<u8> {
    (0..count).map(|_| b"ACGT"[random.below(4) as usize]).collect()
}

/// Chromosomes: the same that the reads come from.
const CHROMOSOMES: u64 = 4;

fn genome(total: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(SEED + 1);
    (0..CHROMOSOMES).map(|_| bases(total / CHROMOSOMES, &mut random)).collect()
}

/// Bases of the genome that reads and variants come from.
const GENOME_BASES: u64 = 2_000_000;

fn reference(out: Out, total: u64, _: &mut Random) -> std::io::Result<()> {
    for (n, chromosome) in genome(total).iter().enumerate() {
        writeln!(out, ">chr{}", n + 1)?;
        for line in chromosome.chunks(80) {
            out.write_all(line)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Reads of 150 bases with an error in a hundred, as a sequencer writes them.
fn reads(out: Out, count: u64, random: &mut Random) -> std::io::Result<()> {
    const LENGTH: usize = 150;
    let genome = genome(GENOME_BASES);
    for n in 0..count {
        let chromosome = &genome[random.below(CHROMOSOMES) as usize];
        let at = random.below((chromosome.len() - LENGTH) as u64) as usize;
        let mut read = chromosome[at..at + LENGTH].to_vec();
        let mut quality = vec![b'I'; LENGTH];
        for (base, quality) in read.iter_mut().zip(&mut quality) {
            *quality = b'#' + random.below(40) as u8;
            if random.below(100) == 0 {
                *base = b"ACGT"[random.below(4) as usize];
            }
        }
        writeln!(out, "@read{n}")?;
        for part in [&read[..], b"+", &quality] {
            out.write_all(part)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

/// Variants with the genotypes of twenty samples.
fn variants(out: Out, count: u64, random: &mut Random) -> std::io::Result<()> {
    const SAMPLES: usize = 20;
    let step = (GENOME_BASES / CHROMOSOMES) * CHROMOSOMES / count.max(1);
    writeln!(out, "##fileformat=VCFv4.2")?;
    for n in 1..=CHROMOSOMES {
        writeln!(out, "##contig=<ID=chr{n},length={}>", count * step.max(1) + 1)?;
    }
    writeln!(out, "##INFO=<ID=DP,Number=1,Type=Integer,Description=\"Depth\">")?;
    writeln!(out, "##FORMAT=<ID=GT,Number=1,Type=String,Description=\"Genotype\">")?;
    writeln!(out, "##FORMAT=<ID=GQ,Number=1,Type=Integer,Description=\"Quality\">")?;
    write!(out, "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT")?;
    (0..SAMPLES).try_for_each(|sample| write!(out, "\ts{sample}"))?;
    writeln!(out)?;
    for n in 0..count {
        let chromosome = 1 + n * CHROMOSOMES / count;
        let from = pick(random, &["A", "C"]);
        let to = pick(random, &["G", "T"]);
        let (quality, depth) = (random.below(100), random.below(300));
        let at = 1 + n * step.max(1);
        write!(out, "chr{chromosome}\t{at}\t.\t{from}\t{to}\t{quality}\tPASS\tDP={depth}\tGT:GQ")?;
        for _ in 0..SAMPLES {
            let genotype = pick(random, &["0/0", "0/0", "0/1", "1/1"]);
            write!(out, "\t{genotype}:{}", random.below(99))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Bytes of which half can be compressed.
fn binary(out: Out, kib: u64, random: &mut Random) -> std::io::Result<()> {
    for _ in 0..kib {
        let mut block = [0_u8; 1024];
        for (n, byte) in block.iter_mut().enumerate() {
            *byte = if n % 2 == 0 { random.next_u64() as u8 } else { (n / 64) as u8 };
        }
        out.write_all(&block)?;
    }
    Ok(())
}

/// A directory tree of text files of many sizes.
fn tree(path: &Path, files: u64, random: &mut Random) -> std::io::Result<()> {
    for n in 0..files {
        let directory = path.join(format!("d{}", n % 13)).join(format!("e{}", n % 5));
        fs::create_dir_all(&directory)?;
        let file = File::create(directory.join(format!("file{}.txt", n % (files / 2).max(1))))?;
        let mut file = BufWriter::new(file);
        let lines = 1 + random.below(40) * random.below(40);
        prose_like(&mut file, lines, random)?;
    }
    Ok(())
}

fn prose_like(out: Out, lines: u64, random: &mut Random) -> std::io::Result<()> {
    for n in 0..lines {
        let (a, b) = (random.below(1 << 20), random.below(100));
        writeln!(out, "{n} the value of item {a:x} was found to be {b} by the station")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_recipe_makes_the_same_bytes() {
        let bytes = |kind: fn(Out, u64, &mut Random) -> std::io::Result<()>| {
            let mut out = Vec::new();
            kind(&mut out, 50, &mut Random::new(SEED)).expect("memory takes all");
            out
        };
        for kind in [log, access, orders, events, prose, reads, variants, binary] {
            assert_eq!(bytes(kind), bytes(kind));
            assert!(bytes(kind).len() > 50);
        }
        let mut events_text = Vec::new();
        events(&mut events_text, 3, &mut Random::new(SEED)).expect("memory takes all");
        for line in events_text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            serde_json::from_slice::<serde_json::Value>(line).expect("JSON");
        }
    }
}
