// Command flux-values records what Flux makes of values: ChartValuesFromReferences and the digest of its result, for generated
// references and inline values; with the argument digests, the text that is digested, and its digest, for keys and values of all
// kinds. The cases are the same in each run.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/chartutil"
	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects answers Get with ConfigMaps by name.
type objects struct {
	client.Client
	texts map[string]string
}

func (o objects) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.(*corev1.ConfigMap).Data = map[string]string{"values.yaml": o.texts[key.Name]}
	return nil
}

type source struct {
	Text       string `json:"text"`
	TargetPath string `json:"targetPath,omitempty"`
	Literal    bool   `json:"literal,omitempty"`
}

type row struct {
	Sources []source        `json:"sources"`
	Values  json.RawMessage `json:"values"`
	Result  map[string]any  `json:"result,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Failed  bool            `json:"failed,omitempty"`
}

var (
	keys  = []string{"a", "b", "c"}
	paths = []string{"a", "b", "a.b", "a.b.c", "a.c", "b.a", "c.b.a", "a.b[0]", "a.b[1].c", "c[0]", "b[2]", "a\\.b", "a.b.c.a"}
	texts = []string{"x", "1", "true", "null", "'2'", "\"q\"", "1,a.c=2", "{1,2}", "x=y", "a\\,b", "", "1000000", "0.5", "two words"}
)

func value(r *rand.Rand, depth int) any {
	switch n := r.Intn(8); {
	case n < 4 && depth > 0:
		m := map[string]any{}
		for _, k := range keys {
			if r.Intn(2) == 0 {
				m[k] = value(r, depth-1)
			}
		}
		return m
	case n == 4 && depth > 0:
		return []any{value(r, depth-1), value(r, 0)}
	case n == 5:
		return r.Intn(3000000)
	case n == 6:
		return nil
	default:
		return "s"
	}
}

func object(r *rand.Rand) []byte {
	m, ok := value(r, 3).(map[string]any)
	if !ok {
		m = map[string]any{"a": value(r, 2)}
	}
	text, _ := json.Marshal(m)
	return text
}

func main() {
	out := json.NewEncoder(os.Stdout)
	if len(os.Args) > 1 && os.Args[1] == "digests" {
		for _, one := range digests() {
			if err := out.Encode(one); err != nil {
				panic(err)
			}
		}
		return
	}
	r := rand.New(rand.NewSource(7))
	var rows []row
	for len(rows) < 400 {
		one := row{Values: object(r)}
		answers := objects{texts: map[string]string{}}
		var refs []meta.ValuesReference
		for i := range r.Intn(5) {
			name := fmt.Sprint(i)
			s := source{}
			if r.Intn(5) < 2 {
				s.Text = string(object(r))
			} else {
				s = source{texts[r.Intn(len(texts))], paths[r.Intn(len(paths))], r.Intn(4) == 0}
			}
			answers.texts[name] = s.Text
			one.Sources = append(one.Sources, s)
			refs = append(refs, meta.ValuesReference{Kind: "ConfigMap", Name: name, TargetPath: s.TargetPath, Literal: s.Literal})
		}
		var values map[string]any
		if err := json.Unmarshal(one.Values, &values); err != nil {
			panic(err)
		}
		result, err := chartutil.ChartValuesFromReferences(context.Background(), logr.Discard(), answers, "ns", values, refs...)
		one.Failed = err != nil
		if err == nil {
			one.Result = result
			one.Digest = chartutil.DigestValues(digest.SHA256, result).String()
		}
		rows = append(rows, one)
	}
	for _, one := range rows {
		if err := out.Encode(one); err != nil {
			panic(err)
		}
	}
}
