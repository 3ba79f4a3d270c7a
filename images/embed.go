// Package images holds the recipes of the environment images that Muster ships, one folder a recipe, as data inside the
// binary. internal/boot/images reads and builds them.
package images

import "embed"

// Recipes has one folder for each shipped image; its recipe.yaml says the rest.
//
//go:embed all:debian13-hpc all:debian12-hpc all:debian12-hypervisor all:inspector
var Recipes embed.FS
