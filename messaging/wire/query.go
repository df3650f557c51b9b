// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// Query spells an Ask: rate as a decimal number, wait with its unit; what is zero is left out.
func (a Ask) Query() url.Values {
	q := url.Values{}
	set := func(key, value string, given bool) {
		if given {
			q.Set(key, value)
		}
	}
	set("topic", a.Topic, true)
	set("publisher", a.Publisher, true)
	set("group", a.Group, a.Group != "")
	set("rate", strconv.FormatFloat(a.Rate, 'g', -1, 64), a.Rate != 0)
	set("at", a.At, a.At != "")
	set("failed", a.Failed, a.Failed != "")
	set("seen", strconv.FormatUint(a.Seen, 10), a.Seen != 0)
	set("wait", a.Wait.String(), a.Wait != 0)
	return q
}

// ParseAsk reads what Query spells.
func ParseAsk(q url.Values) (a Ask, err error) {
	a = Ask{Topic: q.Get("topic"), Publisher: q.Get("publisher"), Group: q.Get("group"), At: q.Get("at"), Failed: q.Get("failed")}
	if a.Topic == "" || a.Publisher == "" {
		return a, fmt.Errorf("topic and publisher must be given: ?topic=NAME&publisher=NAME")
	}
	for key := range q {
		var bad error
		switch value := q.Get(key); key {
		case "topic", "publisher", "group", "at", "failed":
		case "rate":
			a.Rate, bad = strconv.ParseFloat(value, 64)
			if bad == nil && !(a.Rate >= 0 && a.Rate <= 1e12) {
				bad = fmt.Errorf("not from 0 to 1e12")
			}
		case "seen":
			a.Seen, bad = strconv.ParseUint(value, 10, 64)
		case "wait":
			a.Wait, bad = time.ParseDuration(value)
			if bad == nil && a.Wait < 0 {
				bad = fmt.Errorf("less than nothing")
			}
		default:
			bad = fmt.Errorf("there is no such parameter")
		}
		if bad != nil {
			return a, fmt.Errorf("%s=%s: %w", key, q.Get(key), bad)
		}
	}
	return a, nil
}
