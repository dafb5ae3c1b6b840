//! Builds ring files from the layout's description instead of the writer's code, for layouts that this version does not
//! write.

/// Kinds of sections.
pub const IDENTITY: u64 = 1;
pub const SCHEMA: u64 = 2;
pub const STATE: u64 = 3;
pub const RECORDS: u64 = 4;
pub const ARCHIVE: u64 = 5;
pub const EVENTS: u64 = 6;
pub const SAMPLE: u64 = 7;
pub const SCENE: u64 = 8;

/// The header's ready word.
pub const READY_WORD: usize = 127;
/// The first word of the header's list of sections, and the words of each.
pub const SECTIONS_AT: usize = 8;
pub const SECTION_WORDS: usize = 7;

/// A file to build.
pub struct Draft {
    pub major: u64,
    pub minor: u64,
    pub header_words: usize,
    pub parts: Vec<Part>,
}

/// A section: its head, then its entries, padded with zeros.
pub struct Part {
    pub kind: u64,
    pub head: Vec<u64>,
    pub entry_words: usize,
    pub entries: Vec<Vec<u64>>,
    pub factor: u64,
}

impl Part {
    /// A section of one entry.
    pub fn single(kind: u64, entry: Vec<u64>) -> Self {
        let entry_words = entry.len().next_multiple_of(8);
        Part { kind, head: Vec::new(), entry_words, entries: vec![entry], factor: 1 }
    }

    /// A ring of entries after a counter of those written.
    pub fn ring(kind: u64, entry_words: usize, entries: Vec<Vec<u64>>, factor: u64) -> Self {
        let head = vec![entries.len() as u64, 0, 0, 0, 0, 0, 0, 0];
        Part { kind, head, entry_words, entries, factor }
    }
}

impl Draft {
    /// The file's words.
    pub fn words(&self) -> Vec<u64> {
        let mut words = vec![0; self.header_words];
        for (index, part) in self.parts.iter().enumerate() {
            let (offset, length) = (words.len(), part.head.len() + part.entry_words * part.entries.len());
            let fields = [
                part.kind,
                offset as u64,
                length as u64,
                part.head.len() as u64,
                part.entry_words as u64,
                part.entries.len() as u64,
                part.factor,
            ];
            let at = SECTIONS_AT + index * SECTION_WORDS;
            words[at..at + SECTION_WORDS].copy_from_slice(&fields);
            words.extend(&part.head);
            for entry in &part.entries {
                let mut entry = entry.clone();
                assert!(entry.len() <= part.entry_words, "an entry of kind {} is too long", part.kind);
                entry.resize(part.entry_words, 0);
                words.extend(entry);
            }
        }
        words[0] = u64::from_ne_bytes(*b"operant\0");
        words[1] = 0x0102_0304_0506_0708;
        words[2] = self.major << 32 | self.minor;
        words[3] = words.len() as u64;
        words[4] = self.header_words as u64;
        words[5] = self.parts.len() as u64;
        words[READY_WORD] = u64::from_ne_bytes(*b"isready\0");
        words
    }
}

/// A text section: its length, then its bytes.
pub fn text(text: &str) -> Vec<u64> {
    std::iter::once(text.len() as u64).chain(text_words(text)).collect()
}

/// Bytes in words.
pub fn text_words(text: &str) -> impl Iterator<Item = u64> {
    text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

/// Two numbers of 32 bits in a word.
pub fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A slot that holds content number `number`, complete.
pub fn slot(number: u64, content: impl IntoIterator<Item = u64>) -> Vec<u64> {
    std::iter::once(2 * number + 2).chain(content).collect()
}

/// An archive entry's words for a gauge.
pub fn gauge(min: f32, max: f32, mean: f32, last: f32) -> [u64; 2] {
    [pair(min.to_bits(), max.to_bits()), pair(mean.to_bits(), last.to_bits())]
}

/// An archive entry's words for a counter.
pub fn counter(first: f64, last: f64) -> [u64; 2] {
    [first.to_bits(), last.to_bits()]
}

/// Times in the state section, in its order: published last, state changed, made.
pub struct State<'a> {
    pub code: u64,
    pub published: u64,
    pub times: [u64; 3],
    pub reason: &'a str,
    pub checkpoint: (u64, &'a str),
    pub words: usize,
}

impl State<'_> {
    /// The state section.
    pub fn part(&self) -> Part {
        let [published_at, changed_at, created_at] = self.times;
        let mut words = vec![self.code, self.published, published_at, changed_at, created_at];
        words.resize(8, 0);
        words.extend(slot(1, text(self.reason)));
        words.resize(64, 0);
        let (env_steps, path) = self.checkpoint;
        words.extend(slot(2, std::iter::once(env_steps).chain(text(path))));
        words.resize(self.words, 0);
        Part::single(STATE, words)
    }
}

/// An event, as a slot.
pub fn event(number: u64, level: u64, line: &str) -> Vec<u64> {
    let what = level | (line.len() as u64) << 32;
    slot(number, [1_700_000_000_000_000_000 + number, what].into_iter().chain(text_words(line)))
}

/// A scene, as a slot, of the numbers of 32 bits that an episode is.
pub fn scene(number: u64, numbers: &[u32]) -> Vec<u64> {
    let words: Vec<u64> = numbers.chunks(2).map(|two| pair(two[0], *two.get(1).unwrap_or(&0))).collect();
    slot(number, [number, words.len() as u64].into_iter().chain(words))
}
