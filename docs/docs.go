// Package docs has the pages that bbprof copies from: the columns that a sealed dataset explains.
package docs

import _ "embed"

// Reference describes the columns of a result.
//
//go:embed reference.md
var Reference string

// Extract describes the columns of a corpus that bbprof extracted.
//
//go:embed extract.md
var Extract string
