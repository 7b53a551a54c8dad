package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// record writes what kustomize answers for each case: a folder with files.txt, which holds the command and the files.
func record(fixtures string) error {
	cases, err := filepath.Glob(filepath.Join(fixtures, "*", "files.txt"))
	if err != nil {
		return err
	}
	for _, one := range cases {
		if err := recordOne(one); err != nil {
			return fmt.Errorf("%s: %w", one, err)
		}
	}
	fmt.Println(len(cases), "cases")
	return nil
}

func recordOne(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "kustomize-case-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	command, err := unpack(string(text), root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, strings.Fields(command)...)
	cmd.Dir = root
	// No case needs the network.
	cmd.Env = append(os.Environ(), "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "GIT_ALLOW_PROTOCOL=none")
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	failed := cmd.Run()
	dir := filepath.Dir(file)
	os.Remove(filepath.Join(dir, "expected.yaml"))
	os.Remove(filepath.Join(dir, "expected.err"))
	if failed == nil {
		return os.WriteFile(filepath.Join(dir, "expected.yaml"), out.Bytes(), 0o644)
	}
	message := strings.ReplaceAll(errors.String(), root, "{root}")
	message = regexp.MustCompile("0x[0-9a-f]{8,}").ReplaceAllString(message, "0x_")
	message = regexp.MustCompile(`(?m)^(# Warning|Flag |\d{4}/\d\d/\d\d ).*\n`).ReplaceAllString(message, "")
	return os.WriteFile(filepath.Join(dir, "expected.err"), []byte(message), 0o644)
}

var header = regexp.MustCompile(`^-- (\S+)( base64| without-line-feed)? --$`)

// unpack writes the files of a case and returns its command.
func unpack(text, root string) (string, error) {
	command, rest, _ := strings.Cut(text, "\n")
	var path, kind string
	var body strings.Builder
	flush := func() error {
		if path == "" {
			return nil
		}
		content := []byte(body.String())
		body.Reset()
		switch kind {
		case " base64":
			var err error
			if content, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(content))); err != nil {
				return err
			}
		case " without-line-feed":
			content = bytes.TrimSuffix(content, []byte("\n"))
		}
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, content, 0o644)
	}
	for _, line := range strings.SplitAfter(rest, "\n") {
		if match := header.FindStringSubmatch(strings.TrimSuffix(line, "\n")); match != nil {
			if err := flush(); err != nil {
				return "", err
			}
			path, kind = match[1], match[2]
			continue
		}
		body.WriteString(line)
	}
	return command, flush()
}
