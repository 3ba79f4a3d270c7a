package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// fileSchema is the component that describes a cluster file; render puts spec's own schema there.
const fileSchema = "ClusterFile"

// fileBody is the body of an operation that takes a cluster file, in YAML or JSON.
func fileBody(example string) *huma.RequestBody {
	schema := &huma.Schema{Ref: "#/components/schemas/" + fileSchema}
	return &huma.RequestBody{
		Required: true, Description: "the cluster file; errors say where in it",
		Content: map[string]*huma.MediaType{
			"application/yaml": {Schema: schema, Example: example}, "application/json": {Schema: schema},
		},
	}
}

// declareCommon adds the answers that every operation may give.
func declareCommon(document *huma.OpenAPI) {
	content := map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}
	for _, path := range document.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Delete} {
			if op == nil {
				continue
			}
			for _, status := range apiv1.CommonErrors(op.RequestBody != nil) {
				op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
			}
		}
	}
}

// names gives schemas the names of their types; a cluster's spec is a cluster file. Bodies have the names that clients which
// were made from the document know them by.
func names(t reflect.Type, hint string) string {
	if name, known := known()[t]; known {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// render writes the OpenAPI document as YAML, keys sorted, with the cluster file's own schema in its place.
func render(document *huma.OpenAPI) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	var tree struct {
		OpenAPI    string                    `json:"openapi"`
		Info       any                       `json:"info"`
		Security   any                       `json:"security"`
		Paths      any                       `json:"paths"`
		Components map[string]map[string]any `json:"components"`
	}
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	var file map[string]any
	if err := json.Unmarshal(spec.Schema(), &file); err != nil {
		return nil, fmt.Errorf("read the cluster file's schema: %w", err)
	}
	delete(file, "$schema")
	delete(file, "$id")
	schemas := tree.Components["schemas"]
	schemas[fileSchema] = file
	used := map[string]bool{}
	mark(tree.Paths, schemas, used)
	maps.DeleteFunc(schemas, func(name string, _ any) bool { return !used[name] })
	tree.Paths = whole(tree.Paths)
	for name, schema := range schemas {
		schemas[name] = whole(schema)
	}
	out, err := yaml.MarshalWithOptions(tree, yaml.UseJSONMarshaler(), yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	return out, nil
}

// whole turns the numbers that JSON has read as floating point and that are whole back into integers.
func whole(part any) any {
	switch part := part.(type) {
	case map[string]any:
		for key, value := range part {
			part[key] = whole(value)
		}
	case []any:
		for i, value := range part {
			part[i] = whole(value)
		}
	case float64:
		if part == math.Trunc(part) {
			return int64(part)
		}
	}
	return part
}

// mark notes every schema that can be reached from a part of the document.
func mark(part any, schemas map[string]any, used map[string]bool) {
	switch part := part.(type) {
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			if name := strings.TrimPrefix(ref, "#/components/schemas/"); name != ref && !used[name] {
				used[name] = true
				mark(schemas[name], schemas, used)
			}
		}
		for _, value := range part {
			mark(value, schemas, used)
		}
	case []any:
		for _, value := range part {
			mark(value, schemas, used)
		}
	}
}
