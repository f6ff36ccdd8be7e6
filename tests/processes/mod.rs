//! Three delayd as processes of their own, and what lies between them: they are killed, stopped and cut off from each
//! other while clients work, and what the clients were told is held against what the nodes have.

mod audit;
mod backup;
mod bases;
mod calls;
mod console;
mod day_two;
mod faults;
mod groups;
mod history;
mod linear;
mod load;
mod members;
mod moving;
mod nodes;
mod order;
mod partitions;
mod reads;
mod refused;
mod relay;
mod sealed;
mod sentinel;
mod sick;
mod sick_figures;
mod sick_leader;
mod silence;
mod slots;
mod spread;
mod steady;
mod told;
mod totals;
mod trio;
mod upgrade;
mod verify;
mod waits;
