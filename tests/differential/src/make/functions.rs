//! The functions of templates: what they take and give.
//!
//! Left out are those whose answer is made by chance or from the clock, and those that make keys.

/// Name, parameters and result, each a letter; `*` repeats the parameter before it.
///
/// `a` anything, `s` text, `k` key of a map, `i` integer, `w` small integer and nothing else, `n` number, `f` float, `b` boolean, `m` map, `l` list, `t` list of
/// texts, `r` regular expression, `c` version range, `v` version, `V` parsed version, `d` moment, `u` duration's text, `D` duration,
/// `L` time layout, `z` zone, `y` YAML, `j` JSON, `o` TOML, `T` template, `U` URL, `x` base64, `p` path, `S` a list of texts
/// with room behind it, which Go lets a slice reach into.
pub(super) const FUNCTIONS: &[(&str, &str, char)] = &[
    // Go's own
    ("and", "aa*", 'a'), ("or", "aa*", 'a'), ("not", "a", 'b'), ("len", "a", 'i'), ("index", "la*", 'a'), ("index", "mk", 'a'), ("index", "mkk", 'a'),
    ("slice", "lii", 'l'), ("slice", "sii", 's'), ("slice", "li", 'l'), ("html", "a*", 's'), ("js", "a*", 's'), ("urlquery", "a*", 's'), ("print", "a*", 's'), ("println", "a*", 's'),
    ("printf", "sa*", 's'), ("eq", "aaa*", 'b'), ("eq", "ss", 'b'), ("eq", "nn", 'b'), ("ne", "aa", 'b'), ("lt", "nn", 'b'), ("lt", "ss", 'b'), ("le", "ii", 'b'), ("gt", "ff", 'b'), ("ge", "aa", 'b'),
    ("call", "a*", 'a'),
    // texts
    ("abbrev", "is", 's'), ("abbrevboth", "iis", 's'), ("trunc", "is", 's'), ("trim", "s", 's'), ("upper", "s", 's'), ("lower", "s", 's'), ("title", "s", 's'), ("untitle", "s", 's'),
    ("substr", "iis", 's'), ("repeat", "ws", 's'), ("trimAll", "ss", 's'), ("trimall", "ss", 's'), ("trimSuffix", "ss", 's'), ("trimPrefix", "ss", 's'), ("nospace", "s", 's'), ("initials", "s", 's'),
    ("swapcase", "s", 's'), ("snakecase", "s", 's'), ("camelcase", "s", 's'), ("kebabcase", "s", 's'), ("wrap", "is", 's'), ("wrapWith", "iss", 's'), ("contains", "ss", 'b'),
    ("hasPrefix", "ss", 'b'), ("hasSuffix", "ss", 'b'), ("quote", "a*", 's'), ("squote", "a*", 's'), ("cat", "a*", 's'), ("indent", "ws", 's'), ("nindent", "ws", 's'), ("replace", "sss", 's'),
    ("plural", "ssi", 's'), ("sha1sum", "s", 's'), ("sha256sum", "s", 's'), ("sha512sum", "s", 's'), ("adler32sum", "s", 's'), ("toString", "a", 's'), ("join", "sl", 's'), ("join", "st", 's'), ("join", "sa", 's'),
    ("sortAlpha", "l", 't'), ("sortAlpha", "t", 't'), ("toStrings", "l", 't'), ("split", "ss", 'm'), ("splitList", "ss", 't'), ("splitn", "sis", 'm'),
    ("b64enc", "s", 's'), ("b64dec", "x", 's'), ("b32enc", "s", 's'), ("b32dec", "x", 's'), ("b32dec", "s", 's'), ("hello", "", 's'), ("decryptAES", "sx", 's'),
    // numbers
    ("int", "n", 'i'), ("int", "a", 'i'), ("int64", "n", 'n'), ("int64", "a", 'n'), ("float64", "n", 'f'), ("float64", "a", 'f'), ("atoi", "s", 'n'), ("toDecimal", "n", 'n'), ("add", "nn*", 'n'), ("add1", "n", 'n'),
    ("sub", "nn", 'n'), ("div", "nn", 'n'), ("mod", "nn", 'n'), ("mul", "nn*", 'n'), ("addf", "nn*", 'f'), ("add1f", "n", 'f'), ("subf", "nn*", 'f'), ("divf", "nn*", 'f'), ("mulf", "nn*", 'f'),
    ("max", "nn*", 'n'), ("min", "nn*", 'n'), ("biggest", "nn", 'n'), ("maxf", "nn*", 'f'), ("minf", "nn*", 'f'), ("floor", "n", 'f'), ("ceil", "n", 'f'), ("round", "ni", 'f'), ("round", "nif", 'f'),
    ("seq", "w", 's'), ("seq", "ww", 's'), ("seq", "www", 's'), ("until", "w", 'l'), ("untilStep", "www", 'l'),
    // truth and kinds
    ("default", "aa", 'a'), ("default", "ss", 's'), ("empty", "a", 'b'), ("coalesce", "a*", 'a'), ("all", "a*", 'b'), ("any", "a*", 'b'), ("ternary", "aab", 'a'), ("required", "sa", 'a'), ("fail", "s", 's'),
    ("kindOf", "a", 's'), ("kindIs", "sa", 'b'), ("typeOf", "a", 's'), ("typeIs", "sa", 'b'), ("typeIsLike", "sa", 'b'), ("deepEqual", "aa", 'b'), ("deepEqual", "ll", 'b'), ("deepEqual", "mm", 'b'),
    // lists
    ("list", "a*", 'l'), ("tuple", "a*", 'l'), ("first", "l", 'a'), ("rest", "l", 'l'), ("last", "l", 'a'), ("initial", "l", 'l'), ("append", "la", 'l'), ("push", "la", 'l'), ("prepend", "la", 'l'),
    ("concat", "ll", 'l'), ("concat", "lt*", 'l'), ("reverse", "l", 'l'), ("uniq", "l", 'l'), ("without", "la*", 'l'), ("has", "al", 'b'), ("has", "st", 'b'), ("compact", "l", 'l'), ("chunk", "il", 'l'), ("slice", "l", 'l'),
    ("mustFirst", "l", 'a'), ("mustRest", "l", 'l'), ("mustLast", "a", 'a'), ("mustInitial", "t", 'l'), ("mustAppend", "la", 'l'), ("mustPush", "ta", 'l'), ("mustPrepend", "aa", 'l'), ("mustReverse", "t", 'l'),
    ("mustUniq", "t", 'l'), ("mustWithout", "ta*", 'l'), ("mustHas", "aa", 'b'), ("mustCompact", "t", 'l'), ("mustSlice", "tii", 'l'), ("mustChunk", "it", 'l'),
    // maps
    ("dict", "ka", 'm'), ("dict", "kaka", 'm'), ("dict", "a*", 'm'), ("get", "mk", 'a'), ("set", "mks", 'm'), ("set", "mkn", 'm'), ("set", "mkt", 'm'), ("unset", "mk", 'm'), ("hasKey", "mk", 'b'), ("pluck", "kmm*", 'l'), ("pick", "mk*", 'm'), ("omit", "mk*", 'm'),
    ("dig", "kam", 'a'), ("dig", "kkam", 'a'), ("dig", "a*", 'a'), ("merge", "mm*", 'm'), ("mergeOverwrite", "mm*", 'm'), ("mustMerge", "mm", 'm'), ("mustMergeOverwrite", "mmm", 'm'), ("deepCopy", "a", 'a'), ("mustDeepCopy", "m", 'm'),
    // formats
    ("toYaml", "a", 'y'), ("toYamlPretty", "a", 'y'), ("mustToYaml", "a", 'y'), ("fromYaml", "y", 'm'), ("fromYamlArray", "y", 'l'), ("toJson", "a", 'j'), ("mustToJson", "a", 'j'), ("toPrettyJson", "a", 'j'),
    ("mustToPrettyJson", "a", 'j'), ("toRawJson", "a", 'j'), ("mustToRawJson", "a", 'j'), ("fromJson", "j", 'm'), ("mustFromJson", "j", 'a'), ("fromJsonArray", "j", 'l'), ("toToml", "m", 'o'), ("toToml", "a", 'o'), ("mustToToml", "m", 'o'),
    ("fromToml", "o", 'm'),
    // patterns, versions
    ("regexMatch", "rs", 'b'), ("regexFind", "rs", 's'), ("regexFindAll", "rsi", 'S'), ("regexReplaceAll", "rss", 's'), ("regexReplaceAllLiteral", "rss", 's'), ("regexSplit", "rsi", 'S'), ("regexQuoteMeta", "s", 's'),
    ("mustRegexMatch", "rs", 'b'), ("mustRegexFind", "rs", 's'), ("mustRegexFindAll", "rsi", 'S'), ("mustRegexReplaceAll", "rss", 's'), ("mustRegexReplaceAllLiteral", "rss", 's'), ("mustRegexSplit", "rsi", 'S'),
    ("semver", "v", 'V'), ("semverCompare", "cv", 'b'),
    // time
    ("dateInZone", "Ldz", 's'), ("date_in_zone", "Ldz", 's'), ("date", "Ld", 's'), ("htmlDate", "d", 's'), ("htmlDateInZone", "dz", 's'), ("duration", "n", 's'), ("durationRound", "u", 's'), ("durationRound", "D", 's'),
    ("durationSeconds", "a", 'f'), ("durationMilliseconds", "u", 'i'), ("durationHours", "D", 'f'), ("durationDays", "u", 'f'), ("durationRoundTo", "uu", 'D'), ("durationTruncateTo", "uu", 'D'), ("mustToDuration", "a", 'D'),
    // paths, addresses
    ("base", "p", 's'), ("dir", "p", 's'), ("ext", "p", 's'), ("clean", "p", 's'), ("isAbs", "p", 'b'), ("osBase", "p", 's'), ("osDir", "p", 's'), ("osExt", "p", 's'), ("osClean", "p", 's'), ("osIsAbs", "p", 'b'),
    ("urlParse", "U", 'm'), ("urlJoin", "m", 's'), ("getHostByName", "s", 's'), ("lookup", "ssss", 'm'),
    // templates
    ("tpl", "Ta", 's'), ("include", "ta", 's'), ("include", "sa", 's'),
];
