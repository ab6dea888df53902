//! Reading a long list page by page.

use super::failure::Failure;
use std::num::NonZeroUsize;

/// How a list is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    /// No more than so many in all.
    pub limit: usize,
    /// So many at a time.
    pub page: usize,
}

impl Pages {
    /// Hands each item to `each`, until the limit. `read` gives the page behind an item, at most so
    /// many of it. Answers whether more remain.
    pub(super) async fn each<T>(
        self,
        mut read: impl AsyncFnMut(Option<&T>, NonZeroUsize) -> Result<Vec<T>, Failure>,
        mut each: impl FnMut(&T),
    ) -> Result<bool, Failure> {
        let (mut left, mut last) = (self.limit, None);
        loop {
            // One more than is wanted tells whether there are more.
            let wanted = left.min(self.page);
            let most = NonZeroUsize::MIN.saturating_add(wanted);
            let mut page = read(last.as_ref(), most).await?;
            let more = page.len() > wanted;
            page.truncate(wanted);
            page.iter().for_each(&mut each);
            left -= wanted;
            if !more || left == 0 {
                return Ok(more);
            }
            last = page.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of `n` numbers by pages of 3: items, whether more remain, and how many pages were
    /// read.
    async fn read(n: usize, limit: usize) -> (usize, bool, usize) {
        let (mut seen, mut pages) = (Vec::new(), 0);
        let read = async |last: Option<&usize>, most: NonZeroUsize| {
            pages += 1;
            let from = last.map_or(0, |last| last + 1);
            Ok((from..n).take(most.get()).collect())
        };
        let more = Pages { limit, page: 3 }.each(read, |item| seen.push(*item)).await.unwrap();
        assert_eq!(seen, (0..seen.len()).collect::<Vec<_>>(), "in order, each once");
        (seen.len(), more, pages)
    }

    #[tokio::test]
    async fn a_list_is_read_up_to_its_limit_and_says_whether_more_remain() {
        let all = usize::MAX;
        assert_eq!(read(0, all).await, (0, false, 1));
        assert_eq!(read(3, all).await, (3, false, 1));
        assert_eq!(read(7, all).await, (7, false, 3));
        assert_eq!(read(7, 7).await, (7, false, 3));
        assert_eq!(read(7, 6).await, (6, true, 2));
        assert_eq!(read(7, 2).await, (2, true, 1));
    }
}
