// Records what Go itself answers: text/template on the probes, sigs.k8s.io/yaml on the documents.
//
//	go run . FIXTURES
//
// reads FIXTURES/templates/probes.json, FIXTURES/yaml/documents/* and FIXTURES/answers/questions.json, and writes
// answers.json beside each. The inputs are told in the answers, so that a test sees when they have changed since. What Helm says
// of FIXTURES/schema/questions.txt goes to the renderer's sources.
//
//	go run . answer
//
// answers questions from standard input, one JSON object a line, for tests/differential: Helm's own engine on a template,
// sigs.k8s.io/yaml on a document, kyaml on a stream of them, Helm's strvals on a line of --set, its loader and engine on a
// whole chart, its validator on values under a schema.
//
//	go run . time
//
// times text/template and sigs.k8s.io/yaml on the work that standard input describes, for tests/peers.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

type probes struct {
	Data   json.RawMessage `json:"data"`
	Groups []struct {
		About     string   `json:"about"`
		Templates []string `json:"templates"`
	} `json:"groups"`
}

// answer has either an output or an error.
type answer struct {
	Template string  `json:"template"`
	Output   *string `json:"output,omitempty"`
	Error    string  `json:"error,omitempty"`
}

type document struct {
	Name   string `json:"name"`
	Input  string `json:"input"`
	JSON   string `json:"json,omitempty"`
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FIXTURES, or: go run . answer, or: go run . time")
		os.Exit(2)
	}
	if stream := map[string]func(io.Reader, io.Writer) error{"answer": answerLines, "time": timeWork}[os.Args[1]]; stream != nil {
		if err := stream(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for _, record := range []func(string) error{recordTemplates, recordDocuments, recordAnswers, recordSchemas} {
		if err := record(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func recordTemplates(fixtures string) error {
	path := filepath.Join(fixtures, "templates", "probes.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var in probes
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	data, err := decode(in.Data)
	if err != nil {
		return fmt.Errorf("%s: data: %w", path, err)
	}
	var answers []answer
	for _, group := range in.Groups {
		for _, text := range group.Templates {
			answers = append(answers, execute(text, data))
		}
	}
	return write(filepath.Join(fixtures, "templates", "answers.json"), map[string]any{
		"go":      runtime.Version(),
		"data":    in.Data,
		"answers": answers,
	})
}

// execute runs a template as Helm has templates run: a key that a map lacks is the zero value of its type.
func execute(text string, data any) answer {
	var out bytes.Buffer
	t, err := template.New("probe").Option("missingkey=zero").Parse(text)
	if err == nil {
		err = t.Execute(&out, data)
	}
	if err != nil {
		return answer{Template: text, Error: err.Error()}
	}
	output := out.String()
	return answer{Template: text, Output: &output}
}

// decode reads JSON in which a number with neither point nor exponent is an integer, if it fits.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value)
}

func numbers(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return v.Float64()
		}
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return i, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = numbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func recordDocuments(fixtures string) error {
	paths, err := filepath.Glob(filepath.Join(fixtures, "yaml", "documents", "*"))
	if err != nil {
		return err
	}
	var documents []document
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		documents = append(documents, rewrite(filepath.Base(path), text))
	}
	return write(filepath.Join(fixtures, "yaml", "answers.json"), documents)
}

// rewrite reads a document as Helm reads values, and writes it as Helm's toYaml does.
func rewrite(name string, text []byte) document {
	d := document{Name: name, Input: string(text)}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		d.Error = err.Error()
		return d
	}
	out, err := yaml.Marshal(value)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	d.JSON, d.Output = string(asJSON), string(out)
	return d
}

func write(path string, value any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
