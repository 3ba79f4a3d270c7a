package api

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"

	"muster/internal/spec"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// fileSchema is the component that describes a cluster file; render puts spec's own schema there.
const fileSchema = "ClusterFile"

// fileOperation says that an operation takes a cluster file, in YAML or JSON.
func fileOperation(op huma.Operation) huma.Operation {
	schema := &huma.Schema{Ref: "#/components/schemas/" + fileSchema}
	op.RequestBody = &huma.RequestBody{
		Required: true, Description: "the cluster file; errors say where in it",
		Content: map[string]*huma.MediaType{"application/yaml": {Schema: schema}, "application/json": {Schema: schema}},
	}
	op.Responses = map[string]*huma.Response{"200": {Description: "the plan of a dry run, or nothing to change", Content: map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Answer"}},
	}}}
	return op
}

// render writes the OpenAPI document as YAML, keys sorted, with the cluster file's schema in its place.
func render(document *huma.OpenAPI) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	var file map[string]any
	if err := json.Unmarshal(spec.Schema(), &file); err != nil {
		return nil, fmt.Errorf("read the cluster file's schema: %w", err)
	}
	delete(file, "$schema")
	delete(file, "$id")
	if components, ok := tree["components"].(map[string]any); ok {
		if schemas, ok := components["schemas"].(map[string]any); ok {
			schemas[fileSchema] = file
		}
	}
	out, err := yaml.MarshalWithOptions(tree, yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("render the OpenAPI document: %w", err)
	}
	return out, nil
}
