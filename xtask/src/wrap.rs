//! Wraps pages that are generated as those are that are written by hand.

/// Columns of a line of prose. Tables may be wider.
const WIDTH: usize = 100;

/// The page, each paragraph wrapped that has a longer line. Code spans stay whole.
pub fn wrap(page: &str) -> String {
    let (mut out, mut paragraph, mut is_code) = (String::new(), Vec::new(), false);
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !line.is_empty() && !line.starts_with(['|', '#']);
        let ended = paragraph.last().is_some_and(|last: &&str| is_broken(last));
        if !is_prose || ended || line.starts_with("- ") {
            flush(&mut paragraph, &mut out);
        }
        if is_prose {
            paragraph.push(line);
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    flush(&mut paragraph, &mut out);
    out
}

/// Two blanks end a line of Markdown.
fn is_broken(line: &str) -> bool {
    line.ends_with("  ")
}

fn flush(paragraph: &mut Vec<&str>, out: &mut String) {
    let lines = std::mem::take(paragraph);
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return };
    if lines.iter().all(|line| line.chars().count() <= WIDTH) {
        lines.iter().for_each(|line| out.extend([line, "\n"]));
        return;
    }
    let is_item = first.starts_with("- ") || first.starts_with("  ");
    let indent = if is_item { 2 } else { 0 };
    out.push_str(&first[..indent]);
    let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("- ").unwrap_or(&text);
    let end = if is_broken(last) { "  " } else { "" };
    let (words, mut column) = (words(text.trim_end()), indent);
    for (i, word) in words.iter().enumerate() {
        let behind = if i + 1 == words.len() { end.len() } else { 0 };
        let width = word.chars().count();
        if i != 0 && column + 1 + width + behind > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if i != 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.extend([end, "\n"]);
}

/// The words of a text. A code span is a part of one word, whatever is in it.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut begin, mut is_span) = (Vec::new(), 0, false);
    for (i, letter) in text.char_indices() {
        is_span ^= letter == '`';
        if letter == ' ' && !is_span {
            words.push(&text[begin..i]);
            begin = i + 1;
        }
    }
    words.push(&text[begin..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_and_tables_are_not() {
        let words = "word ".repeat(30);
        let words = words.trim_end();
        let table = format!("| {words} |\n");
        assert_eq!(wrap(&table), table);
        let page = wrap(&format!("- {words}  \n  a `b c` d\n{words}\n"));
        assert!(page.lines().all(|line| line.len() <= WIDTH), "{page}");
        assert!(page.starts_with("- word") && page.contains("\n  word"), "{page}");
        assert!(page.contains("word  \n  a `b c` d word"), "{page}");
        assert_eq!(page.split_whitespace().count(), 30 + 1 + 4 + 30);
        // The blanks at a line's end have room too, and a span has it as a whole.
        let (full, nearly) = ("x".repeat(95), "x".repeat(90));
        assert_eq!(wrap(&format!("{full} yyyy  \n")), format!("{full}\nyyyy  \n"));
        assert_eq!(
            wrap(&format!("{nearly} `a b c d e` z\n")),
            format!("{nearly}\n`a b c d e` z\n")
        );
    }
}
