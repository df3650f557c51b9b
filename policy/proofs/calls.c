// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* One call, of any arguments, in any state of a pool: what holds of every pool holds again. */
#include "state.h"

/* What a decision leaves behind besides. */
static void decided(void)
{
	const struct gi_server *s;
	gi_u32 i, idle = 0, strict = 0;

	for (i = 0; i < CORES; i++) {
		idle += pool.core[i].runs == GI_NOBODY;
		HOLDS(pool.core[i].runs == GI_NOBODY || split(&pool, pool.core[i].runs)->ready, "only the ready run");
		s = split(&pool, pool.burner[i]);
		HOLDS(i >= pool.burners || (!s->ready && s->left > 0), "only the idle burn");
		strict += i < pool.burners && s->kind == GI_PERIODIC_STRICT;
	}
	for (i = 0; i < SERVERS; i++) {
		s = split(&pool, i);
		HOLDS(idle <= strict || !s->ready || i == pool.core[0].runs || i == pool.core[1].runs ||
			      !(s->left > 0 || s->kind == GI_UNLIMITED || s->boost_until),
		      "a core idles only if nobody is eligible, or a strict server keeps it");
	}
	HOLDS(pool.until >= pool.now, "the next decision is not past");
}

int main(void)
{
	enum { ADD, CHARGE, READY, SET, BOOST, DECIDE };
	gi_u32 index = any(2);

	any_pool(CALL == ADD ? any(2) % SERVERS : SERVERS, CALL != CHARGE);
	switch (CALL) {
	case ADD:
		gi_add(&pool, KIND2, any(BITS), any(BITS), any(BITS), any(1), 0);
		break;
	case CHARGE:
		gi_charge(&pool, any(1), any(BITS), any(BITS));
		break;
	case READY:
		gi_ready(&pool, index, any(1), 0);
		break;
	case SET:
		gi_set(&pool, index, any(BITS), any(BITS), any(1), any(1), 0);
		break;
	case BOOST:
		gi_boost(&pool, index, any(BITS), 0);
		break;
	case DECIDE:
		gi_decide(&pool, 0);
		decided();
		break;
	}
	invariant(0);
	return 0;
}
