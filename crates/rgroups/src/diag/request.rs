//! Requests: words, behind the proof of a passcode where one is asked for.

use sha1::{Digest, Sha1};

/// A request is no longer than this.
pub(super) const LIMIT: usize = 10_000;
/// So many words of it are looked at.
const MOST_KEYS: usize = 64;
/// i64, f64 and i32 in front of the digest.
const PREFIX: usize = 8 + 8 + 4;
/// Bytes of the digest.
const DIGEST: usize = 20;

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Names of clusters that shall answer; `*` stands for anything. All of them must fit.
    pub(super) clusters: Vec<String>,
    /// The questions.
    pub(super) keys: Vec<String>,
}

impl Request {
    /// `None` if it is no text, too long, or does not prove that it knows the passcode.
    pub(super) fn parse(bytes: &[u8], passcode: Option<&str>) -> Option<Request> {
        let bytes = bytes.get(..LIMIT.min(bytes.len()))?;
        let text = match passcode {
            Some(passcode) => behind_proof(bytes, passcode)?,
            None => bytes,
        };
        let text = std::str::from_utf8(text).ok()?;
        let mut request = Request { clusters: Vec::new(), keys: Vec::new() };
        for word in text.split_whitespace().take(MOST_KEYS) {
            match word.strip_prefix("cluster=") {
                Some(pattern) => request.clusters.push(pattern.to_owned()),
                None => request.keys.push(word.to_owned()),
            }
        }
        Some(request)
    }

    /// Whether members of this cluster shall answer.
    pub(super) fn is_for(&self, cluster: &str) -> bool {
        self.clusters.iter().all(|p| fits(&p.replace(".*", "*"), cluster))
    }
}

/// What is behind the digest of the passcode. The numbers in front of it do not enter the digest.
fn behind_proof<'a>(bytes: &'a [u8], passcode: &str) -> Option<&'a [u8]> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX)?;
    if prefix[16..] != (DIGEST as u32).to_be_bytes() {
        return None;
    }
    let (proof, text) = rest.split_at_checked(DIGEST)?;
    let ours = Sha1::digest(passcode.as_bytes());
    // Looks at all bytes, so that the time says nothing.
    let differences = proof.iter().zip(ours.iter()).fold(0, |all, (a, b)| all | (a ^ b));
    (differences == 0).then_some(text)
}

/// Whether a name fits a pattern in which `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_proof(passcode: &str, text: &str) -> Vec<u8> {
        let mut bytes = vec![7; 16];
        bytes.extend(20_u32.to_be_bytes());
        bytes.extend(Sha1::digest(passcode.as_bytes()));
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn clusters_are_taken_out_of_the_words() {
        let r = Request::parse(b"jmx=UDP cluster=de*\r\n keys", None).expect("text");
        assert_eq!(r.keys, ["jmx=UDP", "keys"]);
        assert!(r.is_for("demo") && !r.is_for("other"));
    }

    #[test]
    fn a_pattern_may_have_stars_anywhere() {
        assert!(fits("demo", "demo") && !fits("demo", "demos") && !fits("demo", "a demo"));
        assert!(fits("*", "") && fits("*mo", "demo") && fits("d*o", "demo") && fits("d*", "d"));
        assert!(!fits("a*a", "a"), "a star does not make one letter two");
    }

    #[test]
    fn a_request_must_prove_that_it_knows_the_passcode() {
        let right = with_proof("secret", "keys");
        assert!(Request::parse(&right, Some("secret")).is_some_and(|r| r.keys == ["keys"]));
        assert!(Request::parse(&right, Some("other")).is_none());
        assert!(Request::parse(b"keys", Some("secret")).is_none());
        assert!(Request::parse(&right, None).is_none(), "the proof is no text");
    }
}
