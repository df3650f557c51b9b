//! What is taken of any machine until it was measured.

use giusto_model::Duration;

/// Lost of each budget, unless it was measured: 24 to 48 us were on average, with a deviation of 13 to 29 us.
pub(super) const LOSS: Duration = Duration::from_us(100);
/// By how much a supply comes late, once in any window, unless it was measured: up to 530 us once in 7,200 periods.
pub(super) const LATENESS: Duration = Duration::from_us(500);
/// What the manager takes of a core for each period of a server, unless it was measured: 22 to 45 us were.
pub(super) const UPKEEP: Duration = Duration::from_us(45);
/// What the manager takes of a core: 1.1 to 1.3 % (docs/decisions/0005). 2 %.
pub(super) const MANAGER: (u64, u64) = (1, 50);
