//! What only a cluster has: several processes, other hands, restarts under load, and deaths.

mod bare;
mod fleet;
mod killed;
mod kubectl;
mod node;
mod roles;
mod rolling;
mod start;
mod uploads;
