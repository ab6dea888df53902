//! Components made of bytes, for what no toolchain makes: other contracts, faults at the start.

/// A core module whose start function is `code`.
fn module(code: &[u8], memory: bool) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    module.extend(section(1, &[1, 0x60, 0, 0]));
    module.extend(section(3, &[1, 0]));
    if tables(code) {
        // One of functions, with a place and no maximum.
        module.extend(section(4, &[1, 0x70, 0, 1]));
    }
    if memory {
        module.extend(section(5, &[1, 0, 1]));
    }
    module.extend(section(8, &[0]));
    let body = [&[0][..], code, &[0x0b]].concat();
    let body = [&[1, u8::try_from(body.len()).unwrap()][..], &body].concat();
    module.extend(section(10, &body));
    module
}

/// `unreachable`.
pub(crate) const TRAPS: &[u8] = &[0x00];
/// `(loop (br 0))`
pub(crate) const LOOPS: &[u8] = &[0x03, 0x40, 0x0c, 0x00, 0x0b];
/// `(drop (memory.grow (i32.const 8191)))`: half a gibibyte.
pub(crate) const ALLOCATES: &[u8] = &[0x41, 0xff, 0x3f, 0x40, 0x00, 0x1a];

/// `(if (i32.eq (memory.grow (i32.const 600)) (i32.const -1)) (then unreachable))`: 37.5 MiB.
pub(crate) const TAKES_MEMORY: &[u8] =
    &[0x41, 0xd8, 0x04, 0x40, 0x00, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b];
/// The same of `(table.grow 0 (ref.null func) (i32.const 10_000_000))`.
pub(crate) const TAKES_TABLE: &[u8] = &[
    0xd0, 0x70, 0x41, 0x80, 0xad, 0xe2, 0x04, 0xfc, 0x0f, 0x00, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00,
    0x0b,
];

fn tables(code: &[u8]) -> bool {
    code == TAKES_TABLE
}

fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = vec![];
    loop {
        let low = u8::try_from(n & 0x7f).unwrap();
        n >>= 7;
        if n == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(body.len()), body].concat()
}

/// `component`, with one more core module that is instantiated last and starts with `code`.
pub(crate) fn with_start(component: &[u8], code: &[u8]) -> Vec<u8> {
    let modules = core_modules(component);
    let mut bytes = component.to_vec();
    bytes.extend(section(1, &module(code, code == ALLOCATES || code == TAKES_MEMORY)));
    bytes.extend(section(2, &[&[1, 0x00][..], &leb(modules), &[0]].concat()));
    bytes
}

/// How many core modules a component has at its top.
fn core_modules(component: &[u8]) -> usize {
    let (mut at, mut modules) = (8, 0);
    while at < component.len() {
        modules += usize::from(component[at] == 1);
        at += 1;
        let (mut size, mut shift) = (0, 0);
        loop {
            let byte = component[at];
            at += 1;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        at += size;
    }
    modules
}

fn name(name: &str) -> Vec<u8> {
    [&leb(name.len())[..], name.as_bytes()].concat()
}

/// A component that exports an interface with one function of no parameters and no result:
/// enough to have a shape.
pub(crate) fn exporting(export: &str, function: &str, is_async: bool) -> Vec<u8> {
    let kind = if is_async { 0x43 } else { 0x40 };
    let mut core = b"\0asm\x01\0\0\0".to_vec();
    core.extend(section(1, &[1, 0x60, 0, 0]));
    core.extend(section(3, &[1, 0]));
    core.extend(section(7, &[1, 1, b'f', 0, 0]));
    core.extend(section(10, &[1, 2, 0, 0x0b]));
    [
        b"\0asm\x0d\0\x01\0".to_vec(),
        section(1, &core),
        section(2, &[1, 0x00, 0, 0]),
        // The core function `f`, its type, and itself lifted to that.
        section(6, &[1, 0x00, 0x00, 0x01, 0, 1, b'f']),
        section(7, &[1, kind, 0, 1, 0]),
        section(8, &[1, 0x00, 0x00, 0, 0, 0]),
        section(5, &[&[1, 0x01, 1, 0x00][..], &name(function), &[0x01, 0]].concat()),
        section(11, &[&[1, 0x00][..], &name(export), &[0x05, 0, 0]].concat()),
    ]
    .concat()
}

/// `component`, with every `from` in it replaced by `to` of the same length.
pub(crate) fn renamed(component: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = component.to_vec();
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
        at += 1;
    }
    bytes
}
