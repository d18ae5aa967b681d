// Package docs has the pages that bbprof copies from: the columns that a sealed dataset explains, and what to do about a rejection.
package docs

import (
	_ "embed"
	"regexp"
)

// Reference describes the columns of a result and the reasons of rejections.
//
//go:embed reference.md
var Reference string

// Extract describes the columns of a corpus that bbprof extracted.
//
//go:embed extract.md
var Extract string

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// Alone is a text of a page that needs no other page.
func Alone(text string) string { return link.ReplaceAllString(text, "$1") }
