package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/yaml"
)

// schemaCases is where the verdicts go, from the fixtures: beside the code that they judge.
const schemaCases = "../chart-compat/src/render/schema/cases.txt"

// tries is how often Helm is asked the same. Where it still differs by chance, what was recorded before stays if Helm says it
// again, and otherwise the least text counts.
const tries = 40

// recordSchemas asks Helm about every pair of a schema and values in schema/questions.txt.
func recordSchemas(fixtures string) error {
	path := filepath.Join(fixtures, "schema", "questions.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// Helm warns of references that it does not resolve.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var out bytes.Buffer
	out.WriteString("# What Helm says of values under a schema; no lines with a bar: the values are fine. Recorded by make fixtures; " +
		"siblings\n# in order of keys.\n")
	before := earlier(filepath.Join(fixtures, schemaCases))
	schema := ""
	for n, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "schema "); ok {
			schema = rest
		} else if rest, ok := strings.CutPrefix(line, "values "); ok {
			verdict, err := judge(schema, rest, before[schema+"\n"+rest])
			if err != nil {
				return fmt.Errorf("%s:%d: %w", path, n+1, err)
			}
			fmt.Fprintf(&out, "\nschema %s\nvalues %s\n", schema, rest)
			for _, line := range verdict {
				out.WriteString("|")
				if line != "" {
					out.WriteString(" " + line)
				}
				out.WriteString("\n")
			}
		}
	}
	out.WriteString("\n")
	return os.WriteFile(filepath.Join(fixtures, schemaCases), out.Bytes(), 0o644)
}

// earlier has the verdicts of an earlier run, by schema and values; none without one.
func earlier(path string) map[string][]string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	verdicts := map[string][]string{}
	schema, values := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "schema "); ok {
			schema = rest
		} else if rest, ok := strings.CutPrefix(line, "values "); ok {
			values = rest
		} else if rest, ok := strings.CutPrefix(line, "|"); ok {
			key := schema + "\n" + values
			verdicts[key] = append(verdicts[key], strings.TrimPrefix(rest, " "))
		}
	}
	return verdicts
}

// judge has the lines of Helm's verdict; none if the values are fine.
func judge(schema, values string, before []string) ([]string, error) {
	read := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &read); err != nil {
		return nil, err
	}
	var least []string
	for range tries {
		err := util.ValidateAgainstSingleSchema(read, []byte(schema))
		if err == nil {
			return nil, nil
		}
		told := inOrder(strings.Split(err.Error(), "\n"))
		if slices.Equal(told, before) {
			return told, nil
		}
		if least == nil || slices.Compare(told, least) < 0 {
			least = told
		}
	}
	return least, nil
}

// judge tells once what Helm says of values under a schema.
func (r *request) judge() ([]byte, error) {
	values := map[string]any{}
	if err := json.Unmarshal(r.Values, &values); err != nil {
		return nil, err
	}
	err := util.ValidateAgainstSingleSchema(values, r.Text)
	if err == nil {
		return nil, nil
	}
	return nil, errors.New(strings.Join(inOrder(strings.Split(err.Error(), "\n")), "\n"))
}

// block is a line and those that stand deeper below it.
type block struct {
	lines []string
	// group is what siblings share whose order is that of a Go map, and key what they are told apart by.
	group, key string
}

// inOrder sorts what the validator tells in the random order of a map: siblings that stand together and are about the entries
// of one map, or about their names.
func inOrder(lines []string) []string {
	var blocks []block
	for len(lines) > 0 {
		end := 1
		for end < len(lines) && indent(lines[end]) > indent(lines[0]) {
			end++
		}
		b := block{lines: lines[:end]}
		if at, text, ok := strings.Cut(strings.TrimLeft(lines[0], " -"), "': "); ok {
			if name, ok := strings.CutPrefix(text, "invalid propertyName "); ok {
				b.group, b.key = at+" names", name
			} else if slash := strings.LastIndex(at, "/"); slash >= 0 {
				b.group, b.key = at[:slash], at[slash:]
			}
		}
		blocks = append(blocks, b)
		lines = lines[end:]
	}
	var out []string
	for len(blocks) > 0 {
		end := 1
		for end < len(blocks) && blocks[end].group == blocks[0].group {
			end++
		}
		run := blocks[:end]
		sort.SliceStable(run, func(i, j int) bool { return less(run[i].key, run[j].key) })
		for _, b := range run {
			out = append(out, b.lines[0])
			out = append(out, inOrder(b.lines[1:])...)
		}
		blocks = blocks[end:]
	}
	return out
}

// less compares keys as texts, and the indexes of lists as numbers.
func less(a, b string) bool {
	digits := func(s string) bool { return strings.Trim(s, "/0123456789") == "" }
	if digits(a) && digits(b) && len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func indent(line string) int {
	return len(line) - len(strings.TrimLeft(line, " "))
}
