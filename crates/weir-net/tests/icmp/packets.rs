//! Datagrams that Linux 6.18, iputils ping and hping3 sent over a pair of virtual Ethernets,
//! between 10.9.0.1, which asks, and 10.9.0.2, which answers.

/// `ping -c1`: an echo request of 56 bytes of data.
pub const PING: &str = "45000054f48540004001320f0a0900010a090002\
    0800966b1fb800014325026b000000003c78010000000000\
    101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
/// What the kernel answered.
pub const PONG: &str = "450000547ca400004001e9f00a0900020a090001\
    00009e6b1fb800014325026b000000003c78010000000000\
    101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
/// `ping -R`: with a record of route.
pub const PING_ROUTE: &str = "4f00007cf48640004001f5cc0a0900010a090002\
    01072708\
    0a0900010000000000000000000000000000000000000000000000000000000000000000\
    0800d95d1fb900014325026b00000000f984010000000000\
    101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
/// `ping -T tsonly`: with timestamps.
pub const PING_TIMES: &str = "4f00007cf487400040015fa40a0900010a090002\
    4428090004fa761e\
    0000000000000000000000000000000000000000000000000000000000000000\
    080025531fba00014325026b00000000ad8e010000000000\
    101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
/// `ping -Q 0x10 -s 16`: with a type of service.
pub const PING_TOS: &str = "4510002cf4884000400132240a0900010a090002\
    0800181c1fbb00014325026b000000007997010000000000";
/// `hping3 --icmp-ts`: a timestamp request.
pub const TIMESTAMP: &str = "4500002867ce00004001fef20a0900010a090002\
    0d00bbaebc1f000004fa76370000000000000000";
/// What the kernel answered.
pub const TIMESTAMP_REPLY: &str = "450000287caa00004001ea160a0900020a090001\
    0e00c44bbc1f000004fa763704fa763704fa7637";
/// UDP to a port without a listener, with type of service 0x11.
pub const UDP: &str = "45110025354f40004011f1530a0900010a090002\
    c1d51e610011143777656972\
    2061736b73";
/// What the kernel answered.
pub const UNREACHABLE: &str = "45d000417cc700004001e9100a0900020a090001\
    030320d900000000\
    45110025354f40004011f1530a0900010a090002\
    c1d51e6100111437776569722061736b73";

/// The bytes.
pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

/// The payload of the datagram.
pub fn payload(hex: &str) -> Vec<u8> {
    let bytes = bytes(hex);
    let header_bytes = usize::from(bytes[0] & 0xf) * 4;
    bytes[header_bytes..].to_vec()
}
