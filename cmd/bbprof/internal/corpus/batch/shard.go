package batch

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bbprof/bbprof/cmd/bbprof/internal/corpus/input"
)

// Shard is part Index, from 0, of Count parts of a corpus. The zero value is the whole corpus.
type Shard struct{ Index, Count int }

func ParseShard(s string) (Shard, error) {
	i, n, ok := strings.Cut(s, "/")
	index, err1 := strconv.Atoi(i)
	count, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || count < 1 || index < 0 || index >= count {
		return Shard{}, fmt.Errorf("write i/n with i from 0 to n-1, such as 0/4 for the first of four parts")
	}
	return Shard{index, count}, nil
}

// String returns i/n, "" for the whole corpus.
func (s Shard) String() string {
	if s.Count == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// of returns the part that a row belongs to. It depends on the block, so that rows of one block stay together in
// any order, or on an invalid row's text.
func (s Shard) of(row *input.Row) int {
	text := row.Code
	if row.Rejection != nil {
		text = []byte(row.Text)
	}
	return int(hash(text) % uint64(s.Count))
}
