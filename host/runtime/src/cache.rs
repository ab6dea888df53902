//! Compiled code kept on disk, so that a component is compiled once for each engine.
//!
//! An entry is found by the digest of the component and of all that decides how it is compiled, and
//! says both again inside, with a checksum over the code. Whatever is not as it should be is a miss,
//! and is written anew. Machine code runs without a sandbox: entries are taken only from files and a
//! folder that nobody but this user can write. Precompiled code from anywhere else is never loaded
//! (see [`CheckError::Precompiled`](crate::CheckError::Precompiled)).

use crate::component::hex;
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, File, Metadata};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wasmtime::component::Component;

/// The first bytes of an entry. Another form has another number.
const MAGIC: &[u8; 16] = b"windlass code 1\n";
/// A SHA-256.
const DIGEST: usize = 32;
/// Magic, component, engine, checksum.
const HEAD: usize = MAGIC.len() + 3 * DIGEST;
/// All entries together; those not used for longest go first.
const BYTES_MAX: u64 = 1 << 30;
/// An entry's file name ends so.
const ENDING: &str = "code";

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
        let entry = self.read(&path).inspect_err(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "compiled code is not used");
            }
        });
        let entry = entry.ok()?;
        let code = self.code(&entry, component)?;
        // SAFETY: what is not wasmtime's own output could do anything. This is: the file and its
        // folder can be written by this user alone, and `put` writes nothing else there under this
        // magic; that it came through whole, for this component and this engine, was checked.
        #[expect(unsafe_code, reason = "there is no other way to load compiled code")]
        let loaded = unsafe { Component::deserialize(engine, code) };
        let loaded = loaded.inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "compiled code does not load");
        });
        let loaded = loaded.ok()?;
        // For what is used least to go first. It may be read only.
        #[expect(clippy::disallowed_methods, reason = "files are dated by the wall clock")]
        let now = SystemTime::now();
        drop(File::open(&path).and_then(|file| file.set_modified(now)));
        Some(loaded)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let (of_file, of_folder) = (file.metadata()?, fs::metadata(&self.folder)?);
        if !of_file.is_file() || !is_ours_alone(&of_file) || !is_ours_alone(&of_folder) {
            return Err(io::Error::other("others than this user can write it"));
        }
        let mut entry = Vec::with_capacity(usize::try_from(of_file.len()).unwrap_or(0));
        file.read_to_end(&mut entry)?;
        Ok(entry)
    }

    /// The code in an entry, where all of it is as it was written for this component.
    fn code<'e>(&self, entry: &'e [u8], component: &[u8; DIGEST]) -> Option<&'e [u8]> {
        let (head, code) = entry.split_at_checked(HEAD)?;
        let sum: [u8; DIGEST] = Sha256::digest(code).into();
        (head == self.head(component, &sum)).then_some(code)
    }

    fn head(&self, component: &[u8; DIGEST], sum: &[u8; DIGEST]) -> Vec<u8> {
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
            file.write_all(&self.head(component, &sum))?;
            file.write_all(code)
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
            ("half a head", whole[..HEAD / 2].to_vec()),
            ("a head", whole[..HEAD].to_vec()),
            ("a truncated one", whole[..whole.len() - 1].to_vec()),
            ("a longer one", [&whole[..], b"x"].concat()),
            ("another magic", spoilt(0)),
            ("another engine", spoilt(MAGIC.len() + DIGEST)),
            ("another sum", spoilt(HEAD - 1)),
            ("other code", spoilt(whole.len() - 1)),
            ("a swapped one", fs::read(path(&other)).unwrap()),
            ("a foreign file", module),
            ("code without a head", whole[HEAD..].to_vec()),
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
