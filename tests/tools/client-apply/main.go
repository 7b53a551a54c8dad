// Records what the merges of Kubernetes answer to the cases of fixtures/client-apply, and writes the schema by which they merge.
//
//	go run . schema FILE    the merge keys of all kinds of client-go
//	go run . record FOLDER  cases.jsonl of our own, and generated ones, to recorded.jsonl
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// A case: three documents, and the patch or the error. Kind is empty for a JSON merge of two documents, and "*" for one of three.
type testCase struct {
	Name     string          `json:"name"`
	Kind     string          `json:"kind"`
	Original json.RawMessage `json:"original"`
	Modified json.RawMessage `json:"modified"`
	Current  json.RawMessage `json:"current"`
	Patch    json.RawMessage `json:"patch,omitempty"`
	Failed   bool            `json:"failed,omitempty"`
}

func types() *runtime.Scheme {
	known := runtime.NewScheme()
	must(scheme.AddToScheme(known))
	must(apiextensionsv1.AddToScheme(known))
	return known
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (c *testCase) answer(known *runtime.Scheme) {
	patch, err := c.merge(known)
	c.Patch, c.Failed = patch, err != nil
	if err != nil {
		c.Patch = nil
	}
}

func (c *testCase) merge(known *runtime.Scheme) (patch []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			patch, err = nil, fmt.Errorf("%v", reason)
		}
	}()
	switch c.Kind {
	case "":
		return jsonpatch.CreateMergePatch(c.Original, c.Modified)
	case "*":
		return jsonmergepatch.CreateThreeWayJSONMergePatch(c.Original, c.Modified, c.Current)
	}
	var version, kind string
	if _, err := fmt.Sscanf(c.Kind, "%s %s", &version, &kind); err != nil {
		return nil, err
	}
	group, err := schema.ParseGroupVersion(version)
	must(err)
	object, err := known.New(group.WithKind(kind))
	must(err)
	meta, err := strategicpatch.NewPatchMetaFromStruct(object)
	must(err)
	return strategicpatch.CreateThreeWayMergePatch(c.Original, c.Modified, c.Current, meta, true)
}

func record(folder string) error {
	known := types()
	in, err := os.ReadFile(filepath.Join(folder, "cases.jsonl"))
	if err != nil {
		return err
	}
	var cases []testCase
	lines := bufio.NewScanner(bytes.NewReader(in))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one testCase
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		cases = append(cases, one)
	}
	var out bytes.Buffer
	for _, one := range append(cases, generated()...) {
		one.answer(known)
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
	return os.WriteFile(filepath.Join(folder, "recorded.jsonl"), out.Bytes(), 0o644)
}

func main() {
	if len(os.Args) != 3 {
		must(fmt.Errorf("usage: schema FILE | record FOLDER"))
	}
	switch os.Args[1] {
	case "schema":
		must(os.WriteFile(os.Args[2], []byte(schemaOf(types())), 0o644))
	case "record":
		must(record(os.Args[2]))
	default:
		must(fmt.Errorf("%s: schema or record", os.Args[1]))
	}
}
