// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"giusto.dev/messaging/bucket"
	"go.yaml.in/yaml/v3"
)

// Rate is how many tokens come in a time, spelled as in site files: 11k/s, 0.004/ms, 11000/3/s. Exact.
type Rate struct{ bucket.Rate }

// Tokens is how many tokens a bucket holds, in the bucket's unit: 26, 4.5, 13/3. A fraction finer than the unit is cut off, which
// never lets more through.
type Tokens uint64

// Duration is a length of time: a number and one of ns, us, ms, s, min, h, d.
type Duration time.Duration

// Size is a number of bytes: 512MiB, 64KiB, 100.
type Size int64

var (
	units     = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "d": 86400e9}
	decimal   = regexp.MustCompile(`^\d+(\.\d*)?$`)
	fraction  = regexp.MustCompile(`^\d+/\d+$`)
	timed     = regexp.MustCompile(`^(\d+(?:\.\d*)?) *(ns|us|ms|s|min|h|d)$`)
	sized     = regexp.MustCompile(`^(\d+) *(B|KiB|MiB|GiB)?$`)
	shift     = map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
	nsInOne   = big.NewRat(1e9, 1)
	tokenUnit = big.NewRat(bucket.Token, 1)
)

// exact reads a decimal number or a fraction, of at most 40 digits.
func exact(text string) (*big.Rat, bool) {
	if len(text) > 40 || !decimal.MatchString(text) && !fraction.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(strings.TrimSuffix(text, "."))
}

// ParseRate reads a rate; see Rate.
func ParseRate(text string) (Rate, error) {
	bad := fmt.Errorf("%q is not a rate; expected a number and a unit of time, such as 40/s, 20k/s or 0.004/ms", text)
	at := strings.LastIndex(text, "/")
	if at < 0 {
		return Rate{}, bad
	}
	number, unit := strings.TrimSpace(text[:at]), units[strings.TrimSpace(text[at+1:])]
	scale := int64(1)
	if short, yes := strings.CutSuffix(number, "k"); yes && !strings.Contains(number, "/") {
		number, scale = short, 1e3
	} else if short, yes := strings.CutSuffix(number, "M"); yes && !strings.Contains(number, "/") {
		number, scale = short, 1e6
	}
	rate, ok := exact(number)
	if !ok || unit == 0 {
		return Rate{}, bad
	}
	rate.Mul(rate, big.NewRat(scale, unit)).Mul(rate, nsInOne)
	if rate.Sign() == 0 {
		return Rate{}, fmt.Errorf("%q would let nothing through; a rate must be more than 0", text)
	}
	r := bucket.Rate{Num: rate.Num().Uint64(), Den: rate.Denom().Uint64()}
	_, err := bucket.New(r, 0, 0, 0)
	if err != nil || !rate.Num().IsUint64() || !rate.Denom().IsUint64() {
		return Rate{}, fmt.Errorf("%q has too many digits: as a fraction of tokens a second, num must be less than 2^52, den than 2^42", text)
	}
	return Rate{r}, nil
}

// ParseTokens reads a number of tokens of at least one; see Tokens.
func ParseTokens(text string) (Tokens, error) {
	tokens, ok := exact(text)
	if !ok {
		return 0, fmt.Errorf("%q is not a number of tokens; expected a number such as 26 or 4.5", text)
	}
	if tokens.Cmp(big.NewRat(1, 1)) < 0 {
		return 0, fmt.Errorf("%q is less than one token: no message would ever pass", text)
	}
	tokens.Mul(tokens, tokenUnit)
	whole := new(big.Int).Quo(tokens.Num(), tokens.Denom())
	if !whole.IsUint64() || whole.Uint64() > bucket.Last {
		return 0, fmt.Errorf("%q is more than 2^42 tokens", text)
	}
	return Tokens(whole.Uint64()), nil
}

// ParseDuration reads a length of time; see Duration.
func ParseDuration(text string) (Duration, error) {
	found := timed.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q is not a duration; expected a number and one of ns, us, ms, s, min, h, d, such as 1.5ms", text)
	}
	number, ok := exact(found[1])
	if !ok {
		return 0, fmt.Errorf("%q has too many digits", text)
	}
	number.Mul(number, big.NewRat(units[found[2]], 1))
	if !number.IsInt() || !number.Num().IsInt64() {
		return 0, fmt.Errorf("%q is not a whole number of nanoseconds, or is longer than 292 years", text)
	}
	return Duration(number.Num().Int64()), nil
}

// ParseSize reads a number of bytes; see Size.
func ParseSize(text string) (Size, error) {
	found := sized.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%q is not a size; expected a whole number and B, KiB, MiB or GiB, such as 64MiB", text)
	}
	number, err := strconv.ParseInt(found[1], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return Size(number << shift[found[2]]), nil
}

// value puts what a scalar of the file says into its place, or names the line.
func value[T any](into *T, node *yaml.Node, parse func(string) (T, error)) (err error) {
	if node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expected one value", node.Line)
	}
	if *into, err = parse(node.Value); err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}

// UnmarshalYAML reads ParseRate's spelling.
func (r *Rate) UnmarshalYAML(node *yaml.Node) error { return value(r, node, ParseRate) }

// UnmarshalYAML reads ParseTokens' spelling.
func (t *Tokens) UnmarshalYAML(node *yaml.Node) error { return value(t, node, ParseTokens) }

// UnmarshalYAML reads ParseDuration's spelling.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error { return value(d, node, ParseDuration) }

// UnmarshalYAML reads ParseSize's spelling.
func (s *Size) UnmarshalYAML(node *yaml.Node) error { return value(s, node, ParseSize) }
