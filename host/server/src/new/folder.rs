//! Making the folder: all its files, or nothing that was not there before.

use super::File;
use crate::cli::{Failure, shell};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Makes `folder` with `files`. It may be there already if it is empty.
pub(crate) fn make(folder: &Path, files: &[File]) -> Result<(), Failure> {
    check_is_free(folder)?;
    let mut made = Made::default();
    for file in files {
        made.file(&folder.join(file.path), &file.text)?;
    }
    made.stays = true;
    Ok(())
}

fn check_is_free(folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let occupied = |why: &str| {
        Err(Failure::new(format!("`{shown}` is there already"))
            .because(why)
            .next("take another name, or another folder by `--path DIR`"))
    };
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => occupied("it is not empty, and nothing in it is overwritten"),
        },
        // A link to nowhere is something, too.
        Err(error) if error.kind() == ErrorKind::NotFound && !folder.is_symlink() => Ok(()),
        Err(error) if folder.is_dir() => {
            Err(Failure::system(format!("cannot look into `{shown}`"), &error)
                .next("name another folder by `--path DIR`"))
        }
        Err(_) => occupied("it is not a folder"),
    }
}

/// What was made, removed again unless it stays.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    stays: bool,
}

impl Made {
    fn file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let written = self.folder_of(path).and_then(|()| {
            let mut file = std::fs::File::create_new(path)?;
            self.files.push(path.to_owned());
            file.write_all(text.as_bytes())
        });
        written.map_err(|error| {
            let folder = path.parent().unwrap_or(path).display().to_string();
            Failure::system(format!("cannot write `{}`", path.display()), &error)
                .next(format!("see that it can be written: ls -ld {}", shell(&folder)))
        })
    }

    fn folder_of(&mut self, path: &Path) -> std::io::Result<()> {
        let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let missing: Vec<_> = folders.take_while(|folder| !folder.is_dir()).collect();
        for folder in missing.into_iter().rev() {
            std::fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        // What cannot be removed is told by what failed before.
        for file in &self.files {
            let _stays = std::fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _stays = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&'static str]) -> Vec<File> {
        let file = |path: &&'static str| File { path, text: format!("in {path}\n") };
        paths.iter().map(file).collect()
    }

    #[test]
    fn a_folder_comes_with_the_folders_it_needs() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make(&folder, &files(&["one", "c/d/two"])).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("c/d/two")).unwrap(), "in c/d/two\n");
        let empty = root.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        make(&empty, &files(&["one"])).unwrap();
        assert!(empty.join("one").is_file());
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir(path("full")).unwrap();
        std::fs::write(path("full/one"), "mine").unwrap();
        std::fs::write(path("file"), "mine").unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("link")).unwrap();
        for name in ["full", "file", "link"] {
            let failure = make(&path(name), &files(&["one"])).unwrap_err();
            assert!(failure.what.contains("is there already"), "{failure:?}");
            assert!(failure.next.is_some());
        }
        assert_eq!(std::fs::read_to_string(path("full/one")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "mine");
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_finished_is_not_begun() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        // The second is a folder below a file.
        let failure = make(&folder, &files(&["c/one", "c/one/two"])).unwrap_err();
        assert!(failure.what.contains("c/one/two"), "{failure:?}");
        assert!(!root.path().join("a").exists());
    }
}
