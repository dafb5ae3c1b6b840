//! The device that the configuration requests, parsed once.

use std::fmt;
use std::str::FromStr;

use operant_learn::setting::{Kind, Refusal, Setting, Syntax};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::gpu;

/// A device by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    /// The CPU.
    Cpu,
    /// The GPU of this number, as the CUDA driver counts.
    Cuda(usize),
}

/// A device request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceRequest {
    /// The best device that can train this configuration.
    Auto,
    /// This device only.
    Only(DeviceName),
    /// The first of these that can train: two or more, with the CPU last if it is included.
    FirstOf(Vec<DeviceName>),
}

impl FromStr for DeviceName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text {
            "cpu" => Ok(DeviceName::Cpu),
            text => gpu::ordinal(text).map(DeviceName::Cuda).ok_or_else(refusal),
        }
    }
}

fn refusal() -> Refusal {
    Refusal::new(
        "is not a device",
        "give auto, cpu, cuda or cuda:K, or several in order with the CPU last: cuda:1,cuda:0,cpu",
    )
}

impl FromStr for DeviceRequest {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match text {
            "auto" => Ok(DeviceRequest::Auto),
            text if text.contains(',') => {
                let order: Vec<DeviceName> =
                    text.split(',').map(|name| name.trim().parse()).collect::<Result<_, _>>()?;
                // The CPU can train every configuration, so nothing after it would ever be used.
                let cpu = order.iter().position(|name| *name == DeviceName::Cpu);
                if cpu.is_none_or(|at| at + 1 == order.len()) {
                    Ok(DeviceRequest::FirstOf(order))
                } else {
                    Err(refusal())
                }
            }
            text => text.parse().map(DeviceRequest::Only),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Cpu => f.write_str("cpu"),
            DeviceName::Cuda(ordinal) => f.write_str(&gpu::name(*ordinal)),
        }
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceRequest::Auto => f.write_str("auto"),
            DeviceRequest::Only(name) => write!(f, "{name}"),
            DeviceRequest::FirstOf(order) => {
                let names: Vec<String> = order.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl Serialize for DeviceRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|refusal: Refusal| serde::de::Error::custom(refusal.problem))
    }
}

impl Setting for DeviceRequest {
    const KIND: Kind = Kind::Text(&Syntax {
        about: "`auto`, `cpu`, `cuda`, `cuda:K`, or several in order",
        check: |text| text.parse::<DeviceRequest>().map(drop),
    });
}
