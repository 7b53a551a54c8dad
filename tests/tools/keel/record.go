// Prints which tag keel's policies choose, a line of JSON for each question of fixtures/keel/cases.json. It is run inside keel's own source, whose
// packages are internal: `make fixtures-keel KEEL_SOURCE=DIR`.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/keel-hq/keel/internal/policy"
)

type questions struct {
	Tags     []string `json:"tags"`
	Policies []string `json:"policies"`
	Currents []string `json:"currents"`
}

type answer struct {
	Policy          string `json:"policy"`
	Current         string `json:"current"`
	MatchPreRelease bool   `json:"match_prerelease"`
	Next            string `json:"next"`
}

// next is what keel's watcher of a repository's tags takes: the first that its policy has filtered and accepts.
func next(p policy.Policy, current string, tags []string) string {
	for _, tag := range p.Filter(tags) {
		if accepted, err := p.ShouldUpdate(current, tag); err == nil && accepted {
			if tag == current {
				return ""
			}
			return tag
		}
	}
	return ""
}

func main() {
	var groups []questions
	if err := json.NewDecoder(os.Stdin).Decode(&groups); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, group := range groups {
		for _, name := range group.Policies {
			for _, match := range []bool{true, false} {
				p := policy.GetPolicy(name, &policy.Options{MatchPreRelease: match})
				for _, current := range group.Currents {
					_ = out.Encode(answer{name, current, match, next(p, current, group.Tags)})
				}
			}
		}
	}
}
