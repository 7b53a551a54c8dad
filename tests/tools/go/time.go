package main

import (
	"encoding/json"
	"io"
	"runtime"
	"slices"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// batch is how long one batch of turns takes at least, and batches how many there are: as for those that Go is timed beside.
const (
	batch   = 400 * time.Microsecond
	batches = 41
)

// work is what is timed: probes over data, a loop over items, a document.
type work struct {
	Probes   []string        `json:"probes"`
	Data     json.RawMessage `json:"data"`
	Loop     string          `json:"loop"`
	Items    json.RawMessage `json:"items"`
	Document string          `json:"document"`
}

// timeWork reads work, and writes nanoseconds: parsing a probe and running it, in the mean, running the loop, reading the
// document and writing it.
func timeWork(in io.Reader, out io.Writer) error {
	var w work
	if err := json.NewDecoder(in).Decode(&w); err != nil {
		return err
	}
	data, err := decode(w.Data)
	if err != nil {
		return err
	}
	items, err := decode(w.Items)
	if err != nil {
		return err
	}
	var parse, run float64
	for _, text := range w.Probes {
		t, err := parsed(text)
		if err != nil {
			return err
		}
		parse += perTurn(func() { _, _ = parsed(text) })
		run += perTurn(func() { _ = t.Execute(new(discard), data) })
	}
	loop, err := parsed(w.Loop)
	if err != nil {
		return err
	}
	var document any
	if err := yaml.Unmarshal([]byte(w.Document), &document); err != nil {
		return err
	}
	probes := float64(max(len(w.Probes), 1))
	return json.NewEncoder(out).Encode(map[string]any{
		"go":    runtime.Version(),
		"parse": parse / probes,
		"run":   run / probes,
		"loop":  perTurn(func() { _ = loop.Execute(new(discard), items) }),
		"read":  perTurn(func() { var v any; _ = yaml.Unmarshal([]byte(w.Document), &v) }),
		"write": perTurn(func() { _, _ = yaml.Marshal(document) }),
	})
}

// discard takes text in as a buffer does, as Helm gives one to each template.
type discard struct{ text []byte }

func (d *discard) Write(p []byte) (int, error) {
	d.text = append(d.text, p...)
	return len(p), nil
}

func parsed(text string) (*template.Template, error) {
	return template.New("probe").Option("missingkey=zero").Parse(text)
}

// perTurn is the median over batches of what one turn takes, in nanoseconds.
func perTurn(turn func()) float64 {
	timed := func(turns int) time.Duration {
		begin := time.Now()
		for range turns {
			turn()
		}
		return time.Since(begin)
	}
	turns := 1
	for timed(turns) < batch && turns < 1<<24 {
		turns *= 2
	}
	var all []time.Duration
	for range batches {
		all = append(all, timed(turns))
	}
	slices.Sort(all)
	return float64(all[batches/2].Nanoseconds()) / float64(turns)
}
