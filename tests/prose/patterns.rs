//! The sentence patterns that the lint rejects, each with what to write instead.

pub struct Rule {
    pub name: &'static str,
    /// What to write instead.
    pub write: &'static str,
    pub pattern: &'static str,
    /// Removed from the sentence before the pattern is searched: correct uses of the same words.
    pub correct: &'static str,
}

const fn rule(
    name: &'static str,
    write: &'static str,
    pattern: &'static str,
    correct: &'static str,
) -> Rule {
    Rule { name, write, pattern, correct }
}

pub const RULES: &[Rule] = &[
    rule(
        "clause-as-subject",
        "start with the thing: \"the request\", \"code that ...\", \"the thread that ...\"",
        r"^(What|Whatever|Who|Whoever|Whose) [a-z`]",
        r"^.*\?\W*$|^What (this|that) means\b|^What happens (if|when)\b|^Whatever (the|its) [a-z]+,",
    ),
    rule(
        "that-clause-first",
        "state the fact, then the reason",
        r"^That (an?|the|its|there|no|none|every|each|all|of|what|which|many|much|it|they|he|we) ",
        r"^.*\?\W*$",
    ),
    rule(
        "has-not",
        "\"does not have\", \"lacks\"",
        r"\b([Hh]as|[Hh]ave|[Hh]ad) not(\s*([.,;:()!]|$)|\s+(an?|the|so|as|that|this|these|from|of|in|enough|many)\b)",
        r"\b(which|others|some) (has|have|had) not[.]",
    ),
    rule(
        "is-none",
        "\"is not a\", \"is not one\"",
        r"\b(is|are|was|were|be) none\b",
        r"\b[Tt]here (is|are|was|were|can be|may be) none\b|\bnone of (the|them|these)\b",
    ),
    rule(
        "is-no-noun",
        "\"is not a\", \"must be\", \"cannot be\"",
        r"\b(is|are|was|were) no [a-z`]+",
        r"\b([Tt]here|[Tt]here also|that) (is|are|was|were) no\b|\bno (longer|more|less|different|need|way|doubt|exception|better|worse|easier|guarantee|greater|smaller|fewer|larger|lower|higher|reason|point|place|use|effect|op)\b",
    ),
    rule(
        "is-told",
        "\"receives\", \"is notified of\", \"is set to\", \"is available from\"",
        r"\b(is|are|was|were|be|been) (told|heard|had|asked)\b",
        r"\b(compiler|reader|user|caller) is told\b|\btold apart\b|\b(is|are|be|been) had been\b",
    ),
    rule(
        "things-speak",
        "\"reports\", \"contains\", \"means\"",
        r"\b(tells?|says?|hears?|knows?|speaks?|minds|proves?) (of|nothing|nobody|neither|none)\b",
        "",
    ),
    rule(
        "people",
        "\"no other thread\", \"no code\", \"the caller\"",
        r"\b([Nn]obody|[Ss]omebody|[Ww]hoever)\b",
        "",
    ),
    rule(
        "old-word",
        "\"during\", \"forever\", \"instead of\", \"earlier\", \"in turn\", \"again\", \"at the same time\"",
        r"\b([Aa]mid|[Ff]or ever|for want of|[Ii]n the place of|in (its|their|whose) (place|stead)|in the midst|[Tt]hereof|[Ww]hereof|[Ww]herein|forthwith|hitherto|[Oo]f before|for its sake|to and fro|[Bb]y turns|[Aa]new|[Ll]est|and its kin|[Mm]eanwhile|in vain|all else|or the like|and (the|its) like)\b|\bbesides([.,;:)]|$)",
        "",
    ),
    rule(
        "that-of",
        "repeat the noun",
        r"\b(that|those) of (an?|the|its|their|this|our|another|all|other|others|each|every|it|them|before|what|which)\b",
        r"\b(same as|than|like|matches|mirrors|from|to|with|all) (that|those) of\b",
    ),
    rule("not-so-many", "\"fewer\", \"less\"", r"\b(not|no) so (many|much|few)\b", ""),
    rule(
        "else",
        "\"otherwise\"",
        r"([;,.(] ?|^)[Ee]lse [a-z]",
        r"\b[Ee]lse (if|branch|block|clause)\b",
    ),
    rule(
        "home",
        "\"returned to its pool\", \"come back\"",
        r"\b([Cc]om(e|es|ing)|[Gg]o(es|ing)?|[Ss]en(d|ds|t)|[Bb]r(ing|ings|ought)|[Ii]s|[Aa]re|[Ww]as|[Ww]ere|[Ww]ay|[Gg]one|[Cc]ame) (all |back |straight |it |them )?home\b|\bhomecoming\b",
        r"\bhome (directory|page)\b",
    ),
    rule(
        "keeps-books",
        "\"does its own bookkeeping\"",
        r"\b[Kk]e(ep|eps|pt|eping) (no |its own |their own |our own |the )?books\b",
        "",
    ),
    rule(
        "of-someones",
        "\"belongs to\", \"of the\"",
        r"\b(of|is|are|was|were) (the|an?|another) [a-z]+'s( own\b|[.,;:)]|$)",
        r"\b(is|are) (the|this) crate's own\b",
    ),
    rule(
        "is-of",
        "\"belongs to\", \"comes from\", or the noun: \"a completion of the queue\"",
        r"\b(is|are|was|were) (not |also |all )?of (an?|the|its|this|that|another|no|one|other|others)\b",
        r"\bof (the|an?|this|that|no|one|its|another|other) ([a-z]+ )?(same|right|form|forms|type|types|kind|kinds|size|length|order|use|interest)\b",
    ),
    rule("become-of", "\"what happens to\"", r"\b(become|becomes|became) of\b", ""),
    rule(
        "all-that",
        "\"everything that\", \"all ... that\" with the noun",
        r"\b[Aa]ll that (is|are|was|were|has|have|had|must|can|may|it|they|an?|the|this|its)\b",
        r"\b(after|at|not) all that\b",
    ),
    rule(
        "goes-on",
        "\"continues\", \"works\"",
        r"\b([Gg]o|[Gg]oes|[Ww]ent) on (with|as|until|while|when|to|after|without|and)\b|\b([Gg]o|[Gg]oes|[Ww]ent) on[.,;:)]",
        "",
    ),
    rule(
        "nothing-of",
        "\"does not ... any of\"",
        r"\b[Nn]othing of (an?|the|its|it|that|this|what)\b",
        "",
    ),
    rule(
        "who-for-things",
        "\"the thread that\", \"the caller\"",
        r"(\b(to|of|for|with|by|from|that)|,) (who|whom)\b",
        r"\b(people|users?|readers?|attackers?|contributors?|maintainers?|someone|anyone),? who\b",
    ),
    rule(
        "where-clause-first",
        "\"if\", \"when\"",
        r"^Where (an?|the|it|there|its|no|this|that|they) ",
        r"^.*\?\W*$",
    ),
    rule("gives", "\"returns\"", r"^(Gives|Hears|Knows) ", ""),
    rule(
        "so-many",
        "\"this number of\", \"at most\"",
        r"\b(of|after|for|up to|by|with) so (many|much|few|long)\b",
        "",
    ),
    rule(
        "as-it-has",
        "\"as in\", \"like\"",
        r"\bas ([a-z]+ )?[A-Za-z`']+ (has|have|had) (it|them)\b",
        "",
    ),
    rule(
        "is-with",
        "\"is owned by\", \"the device owns\"",
        r"\b(is|are|was|were) (still )?with (the|a|its) (device|program|caller|peer|queue|queue pair)\b",
        "",
    ),
    rule(
        "under-way",
        "\"in flight\", \"in progress\"",
        r"\b(on (its|their) way|under way)\b",
        r"\bon (its|their) way out\b",
    ),
    rule(
        "of-its-own",
        "\"its own ...\", \"a separate ...\"",
        r"\bof (its|their|our|your|the [a-z]+'s) own([.,;:)]|$| (and|in|for|to|with|at|on|so|which|that|is|was|are)\b)",
        r"\binstead of (its|their|our|your) own\b",
    ),
    rule(
        "alone",
        "\"only\"",
        r"\b[a-z`]+ alone([.,;:)]|$)",
        r"\b([Ll]et|left|stands?|leave( [a-z]+){0,2}) alone\b",
    ),
];
