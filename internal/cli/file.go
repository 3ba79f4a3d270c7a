package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

// clusterFile is a cluster file as it was read.
type clusterFile struct {
	text []byte
	doc  *spec.Document
}

func fileFlag(c *cobra.Command) *string {
	path := c.Flags().StringP("file", "f", "", "the cluster `FILE`; - reads standard input")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	return path
}

// readFile reads and checks a cluster file, so that what is wrong in it is told without a controller.
func (a *app) readFile(path string) (clusterFile, error) {
	if path == "" {
		return clusterFile{}, usage("no cluster file: give one with -f FILE, or -f - for standard input")
	}
	var f clusterFile
	var err error
	if a.file, f.text, err = a.readText("the cluster file", path); err != nil {
		return f, err
	}
	f.doc, err = spec.Parse(a.file, f.text)
	return f, err
}

// readText reads a file that a user names, "-" for standard input, with the name that messages give it.
func (a *app) readText(what, path string) (name string, text []byte, err error) {
	if name = path; path == "-" {
		name = "stdin"
		text, err = io.ReadAll(a.in)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return name, nil, usageError{fmt.Errorf("read %s: %w", what, err)}
	}
	return name, text, nil
}

// notUTF8 is the first line of a text that is not UTF-8, from 1; 0: there is none.
func notUTF8(text []byte) int {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return i + 1
		}
	}
	return 0
}

// unwritten is the file of a cluster that was not written as a file.
func unwritten(c spec.Cluster) (clusterFile, error) {
	f := clusterFile{text: spec.Render(c)}
	var err error
	f.doc, err = spec.Parse("", f.text)
	return f, err
}

// apply makes the cluster be as the file says. The file is sent as it is written, so that the controller can say where in it
// something is wrong.
func (f clusterFile) apply(r apiv1.Request, refresh bool) apiv1.ApplyClusterInput {
	return apiv1.ApplyClusterInput{
		ClusterRef: apiv1.ClusterRef{Cluster: f.doc.Cluster.Name}, FileInput: apiv1.FileInput{Request: r, RawBody: f.text},
		RefreshImage: refresh,
	}
}
