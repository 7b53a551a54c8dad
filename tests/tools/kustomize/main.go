// Runs kustomize's own program, and records its answers: `go run . record FIXTURES`, `go run . tables FILE`, `go run . type-names FILE`,
// `go run . generate DIR COUNT SEED` (random cases), else kustomize's own command line (`go run . build DIR`).
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/kustomize/v5/commands"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "record":
			return record(args[1])
		case "tables":
			return tables(args[1])
		case "type-names":
			return typeNames(filepath.Join(filepath.Dir(args[1]), "tables.rs"), args[1])
		}
	}
	if len(args) == 4 && args[0] == "generate" {
		return generate(args[1], args[2], args[3])
	}
	if commands.NewDefaultCommand().Execute() != nil {
		os.Exit(1)
	}
	return nil
}
