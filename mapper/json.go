package mapper

import (
	"encoding/json"
	"fmt"
)

// MarshalJSON writes addresses as hexadecimal text and counts instructions from 1, as a report does.
func (p Page) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Addr  string `json:"address"`
		Frame int    `json:"frame"`
		Inst  int    `json:"instruction"`
		Fault string `json:"fault"`
	}{fmt.Sprintf("%#x", p.Addr), p.Frame, p.Inst + 1, fmt.Sprintf("%#x", p.Fault)})
}
