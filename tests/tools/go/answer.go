package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/yaml"
)

// patience is how long one question may take.
const patience = 10 * time.Second

// request is one line of input. Text is bytes, which JSON carries as base64.
type request struct {
	// Kind is template, chart, yaml, manifests or strvals.
	Kind string `json:"kind"`
	Text []byte `json:"text"`
	// Values are those of the chart, or those that a line of strvals changes.
	Values json.RawMessage `json:"values"`
	// How strvals reads the line: set, string, json or literal.
	How string `json:"how"`
	// Files of the chart beside its template.
	Files map[string][]byte `json:"files"`
}

// reply is one line of output: what came of the request, and Go's error if it failed.
type reply struct {
	Output []byte `json:"output"`
	Error  []byte `json:"error"`
}

// questions are those that once found a difference.
type questions struct {
	Values json.RawMessage `json:"values"`
	Groups []struct {
		About string   `json:"about"`
		Kind  string   `json:"kind"`
		Texts []string `json:"texts"`
	} `json:"groups"`
}

type recorded struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}

// recordAnswers answers the questions that tests ask without Go.
func recordAnswers(fixtures string) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	path := filepath.Join(fixtures, "answers", "questions.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var in questions
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var answers []recorded
	for _, group := range in.Groups {
		for _, text := range group.Texts {
			r := request{Kind: group.Kind, Text: []byte(text), Values: in.Values, Files: chartFiles}
			switch group.Kind {
			case "template", "chart", "yaml", "manifests", "schema":
			default:
				r.Kind, r.How = "strvals", group.Kind
			}
			said := recorded{Kind: group.Kind, Text: text}
			output, err := r.answer()
			said.Output = string(output)
			if err != nil {
				said.Error = err.Error()
			}
			answers = append(answers, said)
		}
	}
	return write(filepath.Join(fixtures, "answers", "answers.json"), answers)
}

// chartFiles stand beside the template of a recorded question.
var chartFiles = map[string][]byte{
	"a.txt": []byte("one\ntwo\r\nthree"), "conf/b.yaml": []byte("k: v\n"), "conf/deep/c.json": []byte("{\"k\": [1, 2]}"),
	"conf/[x].txt": []byte("brackets"), "conf/{y}.txt": []byte("braces\n\n"), "conf/deep/er/d.txt": []byte("é"),
	"bin/data": []byte("\x00\xFF\xFEab"), "empty": {},
}

// answerLines answers a stream of requests until it ends.
func answerLines(in io.Reader, out io.Writer) error {
	// Warnings are not compared.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// A value without an end overflows the stack: soon, then.
	debug.SetMaxStack(256 << 20)
	lines, writer := bufio.NewReaderSize(in, 1<<20), bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(writer)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		// A question that Go does not finish ends the program; who asks then knows which one it was.
		watchdog := time.AfterFunc(patience, func() { os.Exit(3) })
		output, err := r.answer()
		watchdog.Stop()
		said := reply{Output: output}
		if err != nil {
			said.Error = []byte(err.Error())
		}
		if err := encoder.Encode(said); err != nil {
			return err
		}
		// Each by itself: if the next question ends the program, this answer has arrived.
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func (r *request) answer() (output []byte, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	switch r.Kind {
	case "template":
		return r.render()
	case "chart":
		return r.renderChart()
	case "yaml":
		return r.rewrite()
	case "manifests":
		return r.restream()
	case "schema":
		return r.judge()
	case "strvals":
		return r.set()
	}
	return nil, fmt.Errorf("no such kind: %q", r.Kind)
}

// render puts the text into a chart as its only template and renders that with Helm's engine.
func (r *request) render() ([]byte, error) {
	const name = "templates/NOTES.txt"
	c := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "probe", Version: "0.1.0"},
		Templates: []*common.File{{Name: name, Data: r.Text}},
	}
	for name, data := range r.Files {
		c.Files = append(c.Files, &common.File{Name: name, Data: data})
	}
	values := map[string]any{}
	if err := json.Unmarshal(r.Values, &values); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "probe", Namespace: "default", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities.Copy())
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	return []byte(rendered["probe/"+name]), err
}

// rewrite reads a document three ways: as JSON, strictly, and back into YAML.
func (r *request) rewrite() ([]byte, error) {
	asJSON, err := yaml.YAMLToJSON(r.Text)
	if err != nil {
		return nil, err
	}
	_, strict := yaml.YAMLToJSONStrict(r.Text)
	var value any
	if err := yaml.Unmarshal(r.Text, &value); err != nil {
		return nil, err
	}
	asYAML, err := yaml.Marshal(value)
	// Integers beyond 64 bits with sign are compared as the floats that Helm makes of all numbers.
	rounded, problem := decode(asJSON)
	if problem != nil {
		return nil, problem
	}
	if asJSON, problem = json.Marshal(rounded); problem != nil {
		return nil, problem
	}
	told := fmt.Sprintf("%s\n%v\n%s", asJSON, strict, asYAML)
	return []byte(told), err
}

// restream has kyaml write a stream anew, as Helm's post-renderers do, and with labels, as addon-operator's does.
func (r *request) restream() ([]byte, error) {
	numbered, err := kio.ParseAll(string(r.Text))
	if err != nil {
		return nil, err
	}
	again, err := kio.StringAll(numbered)
	if err != nil {
		return nil, err
	}
	nodes, err := kio.FromBytes(r.Text)
	if err != nil {
		return []byte(again), err
	}
	for _, node := range nodes {
		labels := node.GetLabels()
		labels["heritage"], labels["on"] = "windlass", "yes"
		_ = node.SetLabels(labels)
	}
	labelled, err := kio.StringAll(nodes)
	if err != nil {
		return []byte(again), err
	}
	return []byte(again + "\n" + labelled), nil
}

// set changes values by a line of strvals, and tells them with the types of their numbers.
func (r *request) set() ([]byte, error) {
	decoded, err := decode(r.Values)
	if err != nil {
		return nil, err
	}
	values, ok := decoded.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("values are no map")
	}
	line := string(r.Text)
	switch r.How {
	case "set":
		err = strvals.ParseInto(line, values)
	case "string":
		err = strvals.ParseIntoString(line, values)
	case "json":
		err = strvals.ParseJSON(line, values)
	case "literal":
		err = strvals.ParseLiteralInto(line, values)
	default:
		err = fmt.Errorf("no such way: %q", r.How)
	}
	told, problem := json.Marshal(typed(values))
	if problem != nil {
		return nil, problem
	}
	return told, err
}

// typed tells integers from floats, which JSON does not.
func typed(value any) any {
	switch v := value.(type) {
	case int64:
		return fmt.Sprintf("int64 %d", v)
	case []any:
		told := make([]any, len(v))
		for i := range v {
			told[i] = typed(v[i])
		}
		return told
	case map[string]any:
		told := make(map[string]any, len(v))
		for k := range v {
			told[k] = typed(v[k])
		}
		return told
	}
	return value
}
