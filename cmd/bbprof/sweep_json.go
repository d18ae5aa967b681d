package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"
)

// writeSweep writes a sweep's table, or with -json one object of the factor and its points: the table's columns
// are the keys, but for the first, which is value. What is not known has no key.
func (s *sweeping) writeSweep(std streams, table func(io.Writer) error) error {
	if !s.out.json {
		return s.out.stream(std, table)
	}
	var text bytes.Buffer
	if err := table(&text); err != nil {
		return err
	}
	rows, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		return err
	}
	header := rows[0]
	object := struct {
		Factor string           `json:"factor"`
		Points []map[string]any `json:"points"`
	}{header[0], []map[string]any{}}
	header[0] = "value"
	for _, row := range rows[1:] {
		point := map[string]any{}
		for i, cell := range row {
			if cell != "" {
				point[header[i]] = jsonValue(cell)
			}
		}
		object.Points = append(object.Points, point)
	}
	return s.out.write(std, object, "")
}

// jsonValue is a cell as a number where it is one, or else as text.
func jsonValue(cell string) any {
	if strings.Trim(cell, "+-.0123456789") == "" && json.Valid([]byte(cell)) {
		return json.Number(cell)
	}
	return cell
}
