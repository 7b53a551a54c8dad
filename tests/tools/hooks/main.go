// Records what gojq and robfig/cron answer, in the versions that shell-operator uses.
//
//	go run . FIXTURES
//
// reads FIXTURES/hooks/jq.json and FIXTURES/hooks/cron.json and writes jq.answers.json and cron.answers.json beside them. The
// questions are told in the answers, so that a test sees when they have changed since.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/itchyny/gojq"
	"gopkg.in/robfig/cron.v2"
)

type jqGroup struct {
	About   string          `json:"about"`
	Input   json.RawMessage `json:"input"`
	Filters []string        `json:"filters"`
}

// jqAnswer has either results or an error; fails tells whether the filter is refused or an input is.
type jqAnswer struct {
	Group   int               `json:"group"`
	Filter  string            `json:"filter"`
	Results []json.RawMessage `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"`
	Refused bool              `json:"refused,omitempty"`
}

type cronQuestions struct {
	Times    []time.Time `json:"times"`
	Crontabs []string    `json:"crontabs"`
}

// cronAnswer has the next five times after each of the times asked for, or an error.
type cronAnswer struct {
	Crontab string     `json:"crontab"`
	Next    [][]string `json:"next,omitempty"`
	Error   string     `json:"error,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . FIXTURES")
		os.Exit(2)
	}
	time.Local = time.UTC
	for _, record := range []func(string) error{recordFilters, recordCrontabs} {
		if err := record(filepath.Join(os.Args[1], "hooks")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func write(path string, answers any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(answers); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func recordFilters(dir string) error {
	var groups []jqGroup
	if err := read(filepath.Join(dir, "jq.json"), &groups); err != nil {
		return err
	}
	var answers []jqAnswer
	for index, group := range groups {
		for _, filter := range group.Filters {
			answer := jqAnswer{Group: index, Filter: filter}
			if err := answer.ask(group.Input); err != nil {
				answer.Error = err.Error()
				answer.Results = nil
			}
			answers = append(answers, answer)
		}
	}
	return write(filepath.Join(dir, "jq.answers.json"), answers)
}

func (a *jqAnswer) ask(document json.RawMessage) error {
	a.Refused = true
	query, err := gojq.Parse(a.Filter)
	if err != nil {
		return err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return err
	}
	a.Refused = false
	// Objects come from Kubernetes' decoder, which keeps whole numbers whole.
	var input any
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&input); err != nil {
		return err
	}
	for iter := code.Run(whole(input)); ; {
		value, ok := iter.Next()
		if !ok {
			return nil
		}
		// The peer takes a plain halt for the end.
		if halt, ok := value.(*gojq.HaltError); ok && halt.Value() == nil {
			return nil
		}
		if err, ok := value.(error); ok {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		a.Results = append(a.Results, text)
	}
}

func whole(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return int(n)
		}
		f, _ := value.Float64()
		return f
	case []any:
		for i := range value {
			value[i] = whole(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = whole(value[key])
		}
	}
	return value
}

func recordCrontabs(dir string) error {
	var questions cronQuestions
	if err := read(filepath.Join(dir, "cron.json"), &questions); err != nil {
		return err
	}
	var answers []cronAnswer
	for _, crontab := range questions.Crontabs {
		answer := cronAnswer{Crontab: crontab}
		schedule, err := cron.Parse(crontab)
		if err != nil {
			answer.Error = err.Error()
			answers = append(answers, answer)
			continue
		}
		for _, at := range questions.Times {
			next := []string{}
			for range 5 {
				at = schedule.Next(at)
				if at.IsZero() {
					break
				}
				next = append(next, at.UTC().Format(time.RFC3339))
			}
			answer.Next = append(answer.Next, next)
		}
		answers = append(answers, answer)
	}
	return write(filepath.Join(dir, "cron.answers.json"), answers)
}
