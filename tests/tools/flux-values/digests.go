package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	"github.com/fluxcd/pkg/chartutil"
	"github.com/opencontainers/go-digest"
)

type digested struct {
	Values json.RawMessage `json:"values"`
	Text   string          `json:"text"`
	Digest string          `json:"digest"`
}

// Parts of keys: letters of both cases, digits, signs, characters of two, three and four bytes.
var parts = []string{
	"a", "b", "A", "B", "z", "Z", "0", "1", "9", "10", "01", "_", "__", "-", ".", "/", ":", " ", "#", "$", "%", "&", "*", "+",
	"=", "@", "[", "]", "^", "{", "}", "|", "~", "!", "?", ",", "'", "\"", "\\", "\t", "é", "ß", "Ж", "中", "١", "😀", "\u2028", "\u007f",
}

// Keys that sort differently by bytes and naturally, and those that stand for something else in YAML.
var known = []string{
	"AUTHENTICATION_REQUIRED", "AUTH__METHOD", "a10", "a9", "a-b", "a_b", "aB", "ab", "v1.10", "v1.9", "yes", "no", "on", "off", "y", "n",
	"true", "null", "~", "", "1", "1.5", "0x1f", "1e3", "2024-01-02", "=", "<<", "- a", "? a", "a: b", "a #b", "%a", "@a", "`a",
}

func word(n int) string { return strings.Repeat("w", n) }

// Texts of which some look like something else, some are long, and some have lines.
var special = []any{
	"yes", "Yes", "YES", "no", "NO", "on", "Off", "y", "N", "true", "True", "TRUE", "false", "null", "Null", "NULL", "~", "", " ", "  ",
	"0", "-0", "1", "-1", "+1", "01", "0o7", "007", "08", "0x1F", "0b1", "1_000", "1e3", "1E+3", "1.", ".5", "-.5", "1.5", ".inf", "-.Inf", ".nan",
	"12:30", "12:30:45", "190:20:30", "2024-01-02", "2024-01-02T03:04:05Z", "2024-1-2", "2024-01-02 03:04:05", "<<", "=", "-", "- a", "?", "? a", ":", "a:",
	"a: b", "a:b", "a #b", "a#b", "#a", "&a", "*a", "!a", "!!str a", "|", "> a", "%a", "@a", "`a", "'a", "\"a", "a'b", "a\"b", "\\", "a\\b", "[a", "{a", "]",
	"a,b", "---", "...", "--- a", "a\nb", "a\n", "a\n\n", "\na", "\n", " a\nb", "a\n b", "a \nb", "a\n\nb\n", "a\r\nb", "a\tb", "\ta", "a\t\nb",
	"a ", " a", "é", "中文", "😀", "a\u0001b", "a\u007fb", "a\u0085b", "a\u00a0b", "a\u2028b", "a\u2029b", "a\ufeffb", "\ufeffa", "<a & b>",
	"{{ .Values.a }}", "$(A)", "a=b", "--flag=x", "10m", "1Gi", "100m", "v1", "1.2.3", "sha256:00", "http://a/b?c=d&e=f#g",
	0, 1, -1, 7, 1000000, 123456789, 2147483648, 9007199254740991, 9007199254740993, 1e15, 1e16, 1e20, 1e21, 1e22, 1.5, -1.5, 0.1, 1e-7, 1.23e-10,
	100000.5, 1234567.25, 3.141592653589793, 1e300, true, false, nil, map[string]any{}, []any{}, []any{nil}, []any{[]any{}}, []any{map[string]any{}},
	[]any{[]any{"a", []any{"b"}}}, map[string]any{"a": map[string]any{"b": []any{}}},
}

func long(r *rand.Rand) string {
	var b strings.Builder
	for b.Len() < 60+r.Intn(200) {
		if b.Len() > 0 {
			b.WriteString([]string{" ", " ", " ", " ", "  ", "-", "\n", " # ", ": "}[r.Intn(9)])
		}
		b.WriteString(word(1 + r.Intn(14)))
	}
	return b.String()
}

func key(r *rand.Rand) string {
	if r.Intn(3) == 0 {
		return known[r.Intn(len(known))]
	}
	k := ""
	for range 1 + r.Intn(4) {
		k += parts[r.Intn(len(parts))]
	}
	if r.Intn(40) == 0 {
		k += word(110 + r.Intn(40))
	}
	return k
}

func anything(r *rand.Rand, depth int) any {
	switch n := r.Intn(10); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.Intn(6) {
			m[key(r)] = anything(r, depth-1)
		}
		return m
	case n < 5 && depth > 0:
		l := []any{}
		for range r.Intn(4) {
			l = append(l, anything(r, depth-1))
		}
		return l
	case n == 5:
		return long(r)
	case n == 6:
		return r.NormFloat64() * 1000
	default:
		return special[r.Intn(len(special))]
	}
}

func digests() []digested {
	r := rand.New(rand.NewSource(11))
	var all []map[string]any
	all = append(all, map[string]any{})
	pairs := map[string]any{}
	for _, k := range known {
		pairs[k] = 1
	}
	all = append(all, pairs, map[string]any{"list": []any{pairs, []any{pairs}}})
	for _, v := range special {
		all = append(all, map[string]any{"a": v}, map[string]any{"a": []any{v, map[string]any{"b": v}}})
	}
	for n := 70; n < 90; n++ {
		all = append(all, map[string]any{"a": word(n) + " b " + word(10), "b": []any{word(n/2) + " " + word(n/2) + " c"}})
	}
	for len(all) < 900 {
		m := map[string]any{}
		for range 1 + r.Intn(6) {
			m[key(r)] = anything(r, 3)
		}
		all = append(all, m)
	}
	var rows []digested
	for _, values := range all {
		text, err := json.Marshal(values)
		if err != nil {
			panic(fmt.Sprint(values, err))
		}
		// As a HelmRelease has them: from JSON.
		var read map[string]any
		if err := json.Unmarshal(text, &read); err != nil {
			panic(err)
		}
		one := digested{Values: text, Digest: chartutil.DigestValues(digest.SHA256, read).String()}
		if len(read) > 0 {
			var b strings.Builder
			if err := chartutil.Encode(&b, read, chartutil.SortMapSlice); err != nil {
				panic(err)
			}
			one.Text = b.String()
		}
		rows = append(rows, one)
	}
	return rows
}
