//! The tests of operant-env, one program.

#[macro_use]
#[path = "support/worlds.rs"]
mod worlds;

mod arcade;
mod autoreset;
mod bodies;
mod craftax;
mod doc;
mod emitted;
mod flight;
mod lanes;
mod large;
mod memory;
mod minigrid;
mod poker;
mod prover;
mod reference;
mod registry;
mod replay;
mod rows;
mod two_players;
mod written;

#[path = "support/bounds.rs"]
mod bounds;
#[path = "support/cards.rs"]
mod cards;
#[path = "support/arcade_court.rs"]
mod court;
#[path = "../../operant-lane/tests/support/cxx.rs"]
mod cxx;
#[path = "support/data.rs"]
mod data;
#[path = "support/flag_field.rs"]
mod field;
#[path = "support/hash.rs"]
mod hash;
#[path = "support/locks.rs"]
mod locks;
#[path = "support/python_worlds.rs"]
mod python_worlds;
#[path = "support/arcade_tiles.rs"]
mod tiles;
