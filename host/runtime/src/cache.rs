//! Compiled code kept on disk, so that a component is compiled once for each engine.
//!
//! An entry is found by the digest of the component and of all that decides how it is compiled, and
//! says both again inside, with a checksum over the code. Whatever is not as it should be is a miss,
//! and is written anew. Machine code runs without a sandbox: entries are taken only from files and a
//! folder that nobody but this user can write. Precompiled code from anywhere else is never loaded
//! (see [`CheckError::Precompiled`](crate::CheckError::Precompiled)).

use crate::component::hex;
#[cfg(target_os = "linux")]
use rustix::fs::{MemfdFlags, SealFlags};
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, File, Metadata};
use std::hash::{Hash as _, Hasher};
#[cfg(target_os = "linux")]
use std::io::Seek as _;
use std::io::{self, Read as _, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wasmtime::component::Component;

/// Marks an entry, behind the code. Another form has another number.
const MAGIC: &[u8; 16] = b"windlass code 2\n";
/// A SHA-256.
const DIGEST: usize = 32;
/// Magic, component, engine, checksum.
const FOOT: usize = MAGIC.len() + 3 * DIGEST;
/// An entry is read by so much.
const PIECE: usize = 256 << 10;
/// All entries together; those not used for longest go first.
const BYTES_MAX: u64 = 1 << 30;
/// An entry's file name ends so.
const ENDING: &str = "code";

/// An entry in memory that nothing can change, to be mapped: whatever becomes of the file while its
/// code runs (somebody may cut it short, or write another one over it), the code stays as it is. The
/// system copies it there; a buffer of our own, of which wasmtime makes its own copy, took twice as
/// long.
struct Copied {
    entry: Memory,
    bytes: u64,
}

#[cfg(target_os = "linux")]
type Memory = File;
/// Where the system has no such memory.
#[cfg(not(target_os = "linux"))]
type Memory = io::Cursor<Vec<u8>>;

impl Copied {
    #[cfg(target_os = "linux")]
    fn of(file: &mut File) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut entry = File::from(rustix::fs::memfd_create("windlass-code", flags)?);
        let bytes = io::copy(file, &mut entry)?;
        let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&entry, all)?;
        entry.rewind()?;
        Ok(Self { entry, bytes })
    }

    #[cfg(not(target_os = "linux"))]
    fn of(file: &mut File) -> io::Result<Self> {
        let mut entry = Vec::new();
        let bytes = file.read_to_end(&mut entry)? as u64;
        Ok(Self { entry: io::Cursor::new(entry), bytes })
    }

    /// Loads the code.
    ///
    /// # Safety
    ///
    /// It must be what wasmtime has written. What follows the code is in none of its sections.
    #[expect(unsafe_code, reason = "there is no other way to load compiled code")]
    unsafe fn load(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        #[cfg(target_os = "linux")]
        // SAFETY: the caller's.
        unsafe {
            let path = format!("/proc/self/fd/{}", self.entry.as_raw_fd());
            Component::deserialize_file(engine, path)
        }
        #[cfg(not(target_os = "linux"))]
        // SAFETY: the caller's.
        unsafe {
            Component::deserialize(engine, self.entry.get_ref())
        }
    }

    /// The checksum of the code, where there is any; what follows is read next.
    fn sum(&mut self) -> io::Result<Option<[u8; DIGEST]>> {
        let Some(code) = self.bytes.checked_sub(FOOT as u64) else { return Ok(None) };
        let mut hasher = Sha256::new();
        let mut left = (&mut self.entry).take(code);
        let mut piece = vec![0; PIECE];
        loop {
            match left.read(&mut piece)? {
                0 => return Ok(Some(hasher.finalize().into())),
                read => hasher.update(&piece[..read]),
            }
        }
    }
}

/// A folder of compiled code, for one engine.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Of all that decides how code is compiled.
    engine: [u8; DIGEST],
    bytes_max: u64,
}

/// Feeds a digest what is hashed.
struct Into(Sha256);

impl Hasher for Into {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        // The digest is asked instead.
        0
    }
}

impl Cache {
    /// Keeps code of `engine` in `folder`, which is made when something is kept.
    pub(crate) fn new(folder: &Path, engine: &wasmtime::Engine) -> Self {
        let mut hasher = Into(Sha256::new());
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self { folder: folder.to_owned(), engine: hasher.0.finalize().into(), bytes_max: BYTES_MAX }
    }

    fn path(&self, component: &[u8; DIGEST]) -> PathBuf {
        // Long enough to be unique; the whole of both is inside.
        self.folder.join(format!("{}-{}.{ENDING}", hex(&component[..16]), hex(&self.engine[..8])))
    }

    /// What the component of this digest was compiled to before, if that is there and whole.
    pub(crate) fn get(
        &self,
        engine: &wasmtime::Engine,
        component: &[u8; DIGEST],
    ) -> Option<Component> {
        let path = self.path(component);
        let entry = self.open(&path, component).inspect_err(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "compiled code is not used");
            }
        });
        let entry = entry.ok()??;
        // SAFETY: what is not wasmtime's own output could do anything. This is: the file and its
        // folder can be written by this user alone, and `put` writes nothing else there under this
        // magic; that it came through whole, for this component and this engine, was checked in a
        // copy that nobody can change.
        #[expect(unsafe_code, reason = "there is no other way to load compiled code")]
        let loaded = unsafe { entry.load(engine) };
        let loaded = loaded.inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "compiled code does not load");
        });
        loaded.ok()
    }

    /// A copy of the entry at `path`, where all of it is as it was written for this component.
    fn open(&self, path: &Path, component: &[u8; DIGEST]) -> io::Result<Option<Copied>> {
        let mut file = File::open(path)?;
        let (of_file, of_folder) = (file.metadata()?, fs::metadata(&self.folder)?);
        if !of_file.is_file() || !is_ours_alone(&of_file) || !is_ours_alone(&of_folder) {
            return Err(io::Error::other("others than this user can write it"));
        }
        let mut entry = Copied::of(&mut file)?;
        let Some(sum) = entry.sum()? else { return Ok(None) };
        let mut foot = Vec::with_capacity(FOOT);
        entry.entry.read_to_end(&mut foot)?;
        // For what is used least to go first. It may be read only.
        #[expect(clippy::disallowed_methods, reason = "files are dated by the wall clock")]
        let now = SystemTime::now();
        drop(file.set_modified(now));
        Ok((foot == self.foot(component, &sum)).then_some(entry))
    }

    fn foot(&self, component: &[u8; DIGEST], sum: &[u8; DIGEST]) -> Vec<u8> {
        [&MAGIC[..], component, &self.engine, sum].concat()
    }

    /// Keeps what the component of this digest was compiled to. Where that fails nothing is kept,
    /// which is told and does no harm.
    pub(crate) fn put(&self, component: &[u8; DIGEST], code: &Component) {
        let kept = code.serialize().map_err(io::Error::other);
        let kept = kept.and_then(|code| self.write(component, &code));
        if let Err(error) = kept {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "compiled code is not kept");
        }
    }

    fn write(&self, component: &[u8; DIGEST], code: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let sum: [u8; DIGEST] = Sha256::digest(code).into();
        let path = self.path(component);
        // Others may write the same at the same moment.
        let unnamed = path.with_extension(format!("{}.new", std::process::id()));
        let open =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&unnamed);
        let written = open.and_then(|mut file| {
            file.write_all(code)?;
            file.write_all(&self.foot(component, &sum))
        });
        // Not synced: what a power cut leaves of it is a miss.
        let named = written.and_then(|()| fs::rename(&unnamed, &path));
        if named.is_err() {
            drop(fs::remove_file(&unnamed));
        }
        named?;
        self.make_room(&path)
    }

    /// Removes what was not used for longest, until all is within bounds.
    fn make_room(&self, newest: &Path) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == ENDING) && path != newest {
                let of = entry.metadata()?;
                entries.push((of.modified()?, of.len(), path));
            }
        }
        entries.sort();
        let mut bytes = entries.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        bytes += fs::metadata(newest)?.len();
        for (_, size, path) in entries {
            if bytes <= self.bytes_max {
                break;
            }
            fs::remove_file(path)?;
            bytes -= size;
        }
        Ok(())
    }
}

/// Whether a file is this user's, and nobody else may write it.
fn is_ours_alone(of: &Metadata) -> bool {
    of.uid() == rustix::process::geteuid().as_raw() && of.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn cache(folder: &Path, engine: &wasmtime::Engine) -> Cache {
        Cache::new(&folder.join("cache"), engine)
    }

    fn entries(cache: &Cache) -> Vec<PathBuf> {
        let mut paths: Vec<_> =
            fs::read_dir(&cache.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }

    fn of(bytes: &[u8]) -> [u8; DIGEST] {
        Sha256::digest(bytes).into()
    }

    /// A component that differs from others by `mark` (a custom section).
    fn marked(mark: u8) -> Vec<u8> {
        [EMPTY, &[0, 3, 1, b'm', mark]].concat()
    }

    #[test]
    fn code_is_found_again_and_anything_else_is_a_miss() {
        let engine = wasmtime::Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &engine);
        let [one, other] = [marked(1), marked(2)];
        assert!(cache.get(&engine, &of(&one)).is_none());
        for bytes in [&one, &other] {
            cache.put(&of(bytes), &Component::from_binary(&engine, bytes).unwrap());
            assert!(cache.get(&engine, &of(bytes)).is_some());
        }
        let path = |bytes: &[u8]| cache.path(&of(bytes));
        let whole = fs::read(path(&one)).unwrap();
        let spoilt = |at: usize| {
            let mut entry = whole.clone();
            entry[at] ^= 1;
            entry
        };
        let module = b"\0asm\x01\0\0\0".to_vec();
        for (what, entry) in [
            ("nothing", Vec::new()),
            ("half a foot", whole[whole.len() - FOOT / 2..].to_vec()),
            ("a foot", whole[whole.len() - FOOT..].to_vec()),
            ("a truncated one", whole[..whole.len() - 1].to_vec()),
            ("a longer one", [&whole[..], b"x"].concat()),
            ("another magic", spoilt(whole.len() - FOOT)),
            ("another engine", spoilt(whole.len() - 2 * DIGEST)),
            ("another sum", spoilt(whole.len() - 1)),
            ("other code", spoilt(0)),
            ("a swapped one", fs::read(path(&other)).unwrap()),
            ("a foreign file", module),
            ("code without a foot", whole[..whole.len() - FOOT].to_vec()),
        ] {
            fs::write(path(&one), entry).unwrap();
            assert!(cache.get(&engine, &of(&one)).is_none(), "{what}");
        }
        cache.put(&of(&one), &Component::from_binary(&engine, &one).unwrap());
        assert!(cache.get(&engine, &of(&one)).is_some(), "written anew");
        let mut config = wasmtime::Config::new();
        config.epoch_interruption(true);
        let differs = wasmtime::Engine::new(&config).unwrap();
        assert!(Cache::new(&cache.folder, &differs).get(&differs, &of(&one)).is_none());
        assert_eq!(entries(&cache).len(), 2, "nothing is left of writing");
    }

    #[test]
    fn what_others_can_write_is_not_run() {
        let engine = wasmtime::Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &engine);
        cache.put(&of(EMPTY), &Component::from_binary(&engine, EMPTY).unwrap());
        let entry = entries(&cache).remove(0);
        for (path, loose, tight) in [(&entry, 0o666, 0o600), (&cache.folder, 0o777, 0o700)] {
            let allow = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            allow(loose);
            assert!(cache.get(&engine, &of(EMPTY)).is_none(), "{}", path.display());
            allow(tight);
            assert!(cache.get(&engine, &of(EMPTY)).is_some());
        }
    }

    #[test]
    fn what_becomes_of_its_file_is_nothing_to_code_that_runs() {
        let engine = wasmtime::Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path(), &engine);
        cache.put(&of(EMPTY), &Component::from_binary(&engine, EMPTY).unwrap());
        let entry = entries(&cache).remove(0);
        let loaded = cache.get(&engine, &of(EMPTY)).unwrap();
        let whole = loaded.serialize().unwrap();
        // Code that is mapped from a file would end the process here.
        fs::write(&entry, "").unwrap();
        assert_eq!(loaded.serialize().unwrap(), whole);
        #[cfg(target_os = "linux")]
        {
            let mut copy = Copied::of(&mut File::open(&entry).unwrap()).unwrap();
            assert!(copy.entry.write_all(b"x").is_err(), "it is sealed");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_does_no_harm() {
        let engine = wasmtime::Engine::default();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cache"), "a file").unwrap();
        let cache = cache(folder.path(), &engine);
        cache.put(&of(EMPTY), &Component::from_binary(&engine, EMPTY).unwrap());
        assert!(cache.get(&engine, &of(EMPTY)).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let engine = wasmtime::Engine::default();
        let folder = tempfile::tempdir().unwrap();
        let mut cache = cache(folder.path(), &engine);
        for mark in 1..=3 {
            let bytes = marked(mark);
            cache.put(&of(&bytes), &Component::from_binary(&engine, &bytes).unwrap());
            let path = cache.path(&of(&bytes));
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(mark));
            File::open(path).unwrap().set_modified(at).unwrap();
        }
        assert!(cache.get(&engine, &of(&marked(1))).is_some(), "which makes it the newest");
        let size = fs::metadata(&entries(&cache)[0]).unwrap().len();
        cache.bytes_max = size * 2 + size / 2;
        let last = marked(4);
        cache.put(&of(&last), &Component::from_binary(&engine, &last).unwrap());
        let left = [1, 2, 3, 4].map(|mark| cache.get(&engine, &of(&marked(mark))).is_some());
        assert_eq!(left, [true, false, false, true]);
    }
}
